package check

import (
	"cmp"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/chathome/chathome/kafkasvc/record/logpb"
)

// Facts are what the log says.
type Facts struct {
	Rooms     map[uuid.UUID][]Message // counting messages in log order
	Created   map[uuid.UUID]string    // counting creations
	Doubled   []string                // creations that count twice
	Takeovers int
	Void      int // records that did not land where they name
	Foreign   int // records that are none of chathome's
}

// Fold reads the log with the generated code of the schema, not with the product's reader.
func Fold(log []Record) Facts {
	f := Facts{Rooms: map[uuid.UUID][]Message{}, Created: map[uuid.UUID]string{}}
	log = slices.Clone(log)
	slices.SortFunc(log, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Offset, b.Offset))
	})
	var r logpb.LogRecord
	for _, rec := range log {
		r.Reset()
		if proto.Unmarshal(rec.Value, &r) != nil {
			f.Foreign++
			continue
		}
		counts := r.GetAt() == rec.Offset
		switch kind := r.GetKind().(type) {
		case *logpb.LogRecord_Takeover:
			f.Takeovers++
		case *logpb.LogRecord_ChatRoomCreated:
			id, err := uuid.FromBytes(kind.ChatRoomCreated.GetRoom())
			switch _, known := f.Created[id]; {
			case err != nil:
				f.Foreign++
			case !counts:
				f.Void++
			case known:
				f.Doubled = append(f.Doubled, id.String())
			default:
				f.Created[id] = kind.ChatRoomCreated.GetName()
			}
		case *logpb.LogRecord_MessageAdded:
			m := kind.MessageAdded
			id, err := uuid.FromBytes(m.GetRoom())
			switch {
			case err != nil:
				f.Foreign++
			case !counts:
				f.Void++
			default:
				f.Rooms[id] = append(f.Rooms[id], Message{
					Room: id, Serial: m.GetSerial(), User: m.GetUser(), ClientID: m.GetClientId(), Text: m.GetText(), SentAt: r.GetTimeMs(),
				})
			}
		default:
			f.Foreign++
		}
	}
	return f
}
