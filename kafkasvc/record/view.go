package record

import (
	"errors"
	"unicode/utf8"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chathome/chathome/domain"
)

// Kind says what a record is.
type Kind uint8

const (
	KindUnknown         Kind = iota // a LogRecord of none of the kinds below: skipped and counted
	KindTakeover                    // a new owner; counts wherever it lands
	KindChatRoomCreated             // a room
	KindMessageAdded                // a message of a room
)

func (k Kind) String() string {
	return [...]string{"unknown", "takeover", "chat room created", "message added"}[k]
}

// KnownKinds numbers this program's set of kinds; it grows by one with each set. A local store that was built by a
// program with a smaller set skipped what this one understands, and is rebuilt.
const KnownKinds = 1

// Limits of a record. They are wider than those of the API (domain), so that a later version may raise its own
// without making its records unreadable for this one. Whatever breaks one is not a LogRecord.
const (
	MaxTextBytes  = 64 << 10
	MaxNameBytes  = 4 << 10 // also of a URL
	MaxTokenBytes = 1 << 10 // user, client id, instance id
	MaxSerial     = domain.Serial(1) << 53
)

// ErrNotLogRecord is Decode's only error: the value is foreign (another program's record, a transaction marker)
// or breaks a limit. It is skipped and counted; every reader skips the same ones.
var ErrNotLogRecord = errors.New("not a log record")

// View is a decoded record; its byte slices alias the value it was decoded from and are valid as long as that.
// Fields that the Kind does not have are zero.
type View struct {
	Kind Kind
	At   int64         // offset that the writer expected; see Counts
	Time domain.Millis // given by the writer

	Room   uuid.UUID     // KindChatRoomCreated, KindMessageAdded
	Name   []byte        // KindChatRoomCreated
	Serial domain.Serial // KindMessageAdded, at least 1; as are the next three

	User, ClientID, Text []byte

	Instance, URL []byte    // KindTakeover
	Tenure        uuid.UUID // KindTakeover
}

// Counts is the rule of the log (compare-and-append): at is the offset where the record landed. A takeover counts
// wherever it landed; any other record counts if it landed where its writer said; unknown kinds never count.
func (v *View) Counts(at domain.Offset) bool {
	switch v.Kind {
	case KindTakeover:
		return true
	case KindChatRoomCreated, KindMessageAdded:
		return v.At == int64(at)
	}
	return false
}

// Decode reads value. It accepts exactly what the generated code of logpb accepts, minus what breaks a limit of this
// package or lacks a 16-byte uuid. Fields it does not know are ignored. It does not allocate.
func (v *View) Decode(value []byte) error {
	*v = View{}
	if len(value) == 0 { // a tombstone; as protobuf it would be an empty message
		return ErrNotLogRecord
	}
	var uuids ids
	for b := value; len(b) > 0; {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return ErrNotLogRecord
		}
		b = b[n:]
		switch {
		case num == numAt && typ == protowire.VarintType:
			var x uint64
			x, n = protowire.ConsumeVarint(b)
			v.At = int64(x)
		case num == numTime && typ == protowire.VarintType:
			var x uint64
			x, n = protowire.ConsumeVarint(b)
			v.Time = domain.Millis(x)
		case num >= numTakeover && num <= numMessage && typ == protowire.BytesType:
			var body []byte
			body, n = consumeBytes(b)
			kind := Kind(num-numTakeover) + KindTakeover
			if kind != v.Kind { // of a oneof the last one holds; the same one again is merged
				*v = View{Kind: kind, At: v.At, Time: v.Time}
				uuids = ids{}
			}
			if n >= 0 && !v.decodeBody(body, &uuids) {
				return ErrNotLogRecord
			}
		default: // a later version's, or a group
			n = protowire.ConsumeFieldValue(num, typ, b)
		}
		if n < 0 {
			return ErrNotLogRecord
		}
		b = b[n:]
	}
	if !v.settle(uuids) {
		return ErrNotLogRecord
	}
	return nil
}

// ids are the uuid fields as they stand in the record. Only the last value of a field has to be a uuid.
type ids struct{ room, tenure []byte }

// decodeBody reads the message of v.Kind. Of a field that occurs twice the last value holds.
func (v *View) decodeBody(b []byte, uuids *ids) bool {
	for len(b) > 0 {
		num, typ, n := consumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		var dst *[]byte
		text := true
		switch v.Kind {
		case KindMessageAdded:
			switch num {
			case numMessageRoom:
				dst, text = &uuids.room, false
			case numMessageSerial:
				if typ == protowire.VarintType {
					var x uint64
					if x, n = protowire.ConsumeVarint(b); n < 0 {
						return false
					}
					v.Serial = domain.Serial(x)
					b = b[n:]
					continue
				}
			case numMessageUser:
				dst = &v.User
			case numMessageClientID:
				dst = &v.ClientID
			case numMessageText:
				dst = &v.Text
			}
		case KindChatRoomCreated:
			switch num {
			case numRoomRoom:
				dst, text = &uuids.room, false
			case numRoomName:
				dst = &v.Name
			}
		case KindTakeover:
			switch num {
			case numTakeoverInstance:
				dst = &v.Instance
			case numTakeoverURL:
				dst = &v.URL
			case numTakeoverTenure:
				dst, text = &uuids.tenure, false
			}
		}
		if dst != nil && typ == protowire.BytesType {
			var x []byte
			if x, n = consumeBytes(b); n < 0 || text && !utf8.Valid(x) {
				return false
			}
			*dst = x
		} else if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

// settle checks the finished record against the rules of this package.
func (v *View) settle(uuids ids) bool {
	switch v.Kind {
	case KindTakeover:
		return setUUID(&v.Tenure, uuids.tenure) && len(v.Instance) <= MaxTokenBytes && len(v.URL) <= MaxNameBytes
	case KindChatRoomCreated:
		return setUUID(&v.Room, uuids.room) && len(v.Name) <= MaxNameBytes
	case KindMessageAdded:
		return setUUID(&v.Room, uuids.room) && v.Serial >= 1 && v.Serial <= MaxSerial &&
			len(v.User) <= MaxTokenBytes && len(v.ClientID) <= MaxTokenBytes && len(v.Text) <= MaxTextBytes
	}
	return true
}

func setUUID(dst *uuid.UUID, b []byte) bool {
	if len(b) != len(dst) {
		return false
	}
	copy(dst[:], b)
	return true
}

// consumeTag is protowire.ConsumeTag with the usual case, one byte, inlined, and without the field numbers that only
// MessageSets have.
func consumeTag(b []byte) (protowire.Number, protowire.Type, int) {
	if len(b) > 0 && b[0] >= 1<<3 && b[0] < 0x80 {
		return protowire.Number(b[0] >> 3), protowire.Type(b[0] & 7), 1
	}
	return consumeLongTag(b)
}

func consumeLongTag(b []byte) (protowire.Number, protowire.Type, int) {
	num, typ, n := protowire.ConsumeTag(b)
	if num > protowire.MaxValidNumber {
		return 0, 0, -1
	}
	return num, typ, n
}

// consumeBytes is protowire.ConsumeBytes with the usual case, a length of one byte, inlined.
func consumeBytes(b []byte) ([]byte, int) {
	if len(b) > 0 && b[0] < 0x80 && int(b[0]) < len(b) {
		n := 1 + int(b[0])
		return b[1:n:n], n
	}
	return protowire.ConsumeBytes(b)
}
