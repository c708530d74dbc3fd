package directory

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"github.com/chathome/chathome/domain"
	logrecord "github.com/chathome/chathome/kafkasvc/record"
	"github.com/chathome/chathome/kafkasvc/record/logpb"
)

// recordKind is what a value of the topic is.
type recordKind uint8

const (
	kindJunk    recordKind = iota // not ours: foreign, damaged, a transaction marker
	kindUnknown                   // decodes, but no kind that this program knows: of a newer version
	kindHome
	kindRoom
	kindOwner
	kindBarrier
)

// record is a decoded value. Only what belongs to its kind is set.
type record struct {
	kind recordKind
	home uuid.UUID           // of the life it was written for; unset in kindHome
	life Life                // of kindHome
	room domain.ChatRoomInfo // without the shard
	own  OwnerEntry
}

// Limits of what is believed: the topic is written by instances, but a record may come from anywhere.
const (
	maxShards     = 1 << 20
	maxNameBytes  = domain.MaxRoomNameRunes * utf8.UTFMax
	maxOwnerBytes = 4096
)

// decode never fails: what is not a record of ours is kindJunk.
func decode(value []byte) record {
	var pb logpb.DirectoryRecord
	if len(value) == 0 || proto.Unmarshal(value, &pb) != nil {
		return record{}
	}
	home, bound := uuidOf(pb.GetWrittenFor())
	if _, ok := pb.GetKind().(*logpb.DirectoryRecord_Home); !ok && !bound {
		return record{}
	}
	switch k := pb.GetKind().(type) {
	case *logpb.DirectoryRecord_Home:
		id, ok := uuidOf(k.Home.GetHomeId())
		n := k.Home.GetShardCount()
		if !ok || n < 1 || n > maxShards {
			return record{}
		}
		return record{kind: kindHome, life: Life{Home: id, Shards: int(n)}}
	case *logpb.DirectoryRecord_RoomAnnounced:
		id, ok := uuidOf(k.RoomAnnounced.GetRoom())
		name := k.RoomAnnounced.GetName()
		if !ok || len(name) > maxNameBytes {
			return record{}
		}
		return record{kind: kindRoom, home: home, room: domain.ChatRoomInfo{
			ID: id, Name: name, CreatedAt: domain.Millis(k.RoomAnnounced.GetCreatedMs()),
		}}
	case *logpb.DirectoryRecord_ShardOpened:
		o := k.ShardOpened
		if o.GetShard() < 0 || o.GetLife() < 0 || o.GetVersion() < 0 || len(o.GetInstance())+len(o.GetUrl()) > maxOwnerBytes {
			return record{}
		}
		return record{kind: kindOwner, home: home, own: OwnerEntry{
			Shard: domain.ShardID(o.GetShard()),
			Life:  o.GetLife(),
			Owner: domain.Owner{
				Instance: domain.Instance{ID: o.GetInstance(), URL: o.GetUrl()},
				Version:  domain.Offset(o.GetVersion()),
			},
		}}
	case *logpb.DirectoryRecord_Barrier:
		return record{kind: kindBarrier, home: home}
	default:
		return record{kind: kindUnknown, home: home}
	}
}

func uuidOf(b []byte) (id uuid.UUID, ok bool) {
	if len(b) != len(id) {
		return id, false
	}
	copy(id[:], b)
	return id, id != uuid.Nil
}

func encodeHome(l Life) ([]byte, error) {
	return marshal(&logpb.DirectoryRecord{Kind: &logpb.DirectoryRecord_Home{Home: &logpb.Home{
		HomeId: l.Home[:], ShardCount: int32(l.Shards),
	}}})
}

// encodeRoom announces a room whose name breaks the limits (it can only come from a damaged log) without one: nobody
// would believe the record otherwise.
func encodeRoom(home uuid.UUID, r domain.ChatRoomInfo) ([]byte, error) {
	if r.ID == uuid.Nil {
		return nil, errors.New("a room without an id")
	}
	if len(r.Name) > maxNameBytes || !utf8.ValidString(r.Name) {
		r.Name = ""
	}
	return marshal(&logpb.DirectoryRecord{WrittenFor: home[:], Kind: &logpb.DirectoryRecord_RoomAnnounced{RoomAnnounced: &logpb.RoomAnnounced{
		Room: r.ID[:], Name: r.Name, CreatedMs: int64(r.CreatedAt),
	}}})
}

func encodeBarrier(home uuid.UUID) ([]byte, error) {
	return marshal(&logpb.DirectoryRecord{WrittenFor: home[:], Kind: &logpb.DirectoryRecord_Barrier{Barrier: &logpb.Barrier{}}})
}

func encodeOwner(home uuid.UUID, e OwnerEntry) ([]byte, error) {
	return marshal(&logpb.DirectoryRecord{WrittenFor: home[:], Kind: &logpb.DirectoryRecord_ShardOpened{ShardOpened: &logpb.ShardOpened{
		Shard: int32(e.Shard), Life: e.Life, Version: int64(e.Owner.Version),
		Instance: e.Owner.Instance.ID, Url: e.Owner.Instance.URL,
	}}})
}

func marshal(r *logpb.DirectoryRecord) ([]byte, error) {
	b, err := proto.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode a directory record: %w", err)
	}
	return b, nil
}

// hash tells the value at an offset from another that took its place.
func hash(value []byte) uint64 { return logrecord.Hash(value) }
