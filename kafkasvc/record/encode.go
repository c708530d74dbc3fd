package record

import (
	"github.com/cespare/xxhash/v2"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/chathome/chathome/domain"
)

// Field numbers of logpb/log.proto.
const (
	numAt       protowire.Number = 1
	numTime     protowire.Number = 2
	numTakeover protowire.Number = 3 // the kinds stand in the order of Kind
	numRoom     protowire.Number = 4
	numMessage  protowire.Number = 5

	numTakeoverInstance protowire.Number = 1
	numTakeoverURL      protowire.Number = 2
	numTakeoverTenure   protowire.Number = 3

	numRoomRoom protowire.Number = 1
	numRoomName protowire.Number = 2

	numMessageRoom     protowire.Number = 1
	numMessageSerial   protowire.Number = 2
	numMessageUser     protowire.Number = 3
	numMessageClientID protowire.Number = 4
	numMessageText     protowire.Number = 5
)

// Takeover is what a new owner appends first.
type Takeover struct {
	Instance domain.Instance
	Tenure   uuid.UUID // drawn for this one tenure
	Time     domain.Millis
}

// AppendMessage appends the record of m that counts at offset at and nowhere else. It allocates only where dst is
// too short, as all Append functions here; the bytes are those of the generated code.
func AppendMessage(dst []byte, at domain.Offset, m *domain.Message) []byte {
	dst = appendHead(dst, int64(at), m.SentAt)
	dst = protowire.AppendTag(dst, numMessage, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(sizeUUID+
		sizeVarint(uint64(m.Serial))+sizeString(m.User)+sizeString(m.ClientID)+sizeString(m.Text)))
	dst = appendUUID(dst, numMessageRoom, &m.Room)
	dst = appendVarint(dst, numMessageSerial, uint64(m.Serial))
	dst = appendString(dst, numMessageUser, m.User)
	dst = appendString(dst, numMessageClientID, m.ClientID)
	return appendString(dst, numMessageText, m.Text)
}

// AppendChatRoom appends the record of a new room that counts at offset at and nowhere else.
func AppendChatRoom(dst []byte, at domain.Offset, info *domain.ChatRoomInfo) []byte {
	dst = appendHead(dst, int64(at), info.CreatedAt)
	dst = protowire.AppendTag(dst, numRoom, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(sizeUUID+sizeString(info.Name)))
	dst = appendUUID(dst, numRoomRoom, &info.ID)
	return appendString(dst, numRoomName, info.Name)
}

// AppendTakeover appends a takeover. It names no offset: it counts wherever it lands.
func AppendTakeover(dst []byte, t *Takeover) []byte {
	dst = appendHead(dst, 0, t.Time)
	dst = protowire.AppendTag(dst, numTakeover, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(sizeUUID+sizeString(t.Instance.ID)+sizeString(t.Instance.URL)))
	dst = appendString(dst, numTakeoverInstance, t.Instance.ID)
	dst = appendString(dst, numTakeoverURL, t.Instance.URL)
	return appendUUID(dst, numTakeoverTenure, &t.Tenure)
}

// Hash of a raw record value tells whether the log still holds the record that a reader knows at an offset.
// Local stores keep it for the record before their position, so it must not change without a new format there.
func Hash(value []byte) uint64 { return xxhash.Sum64(value) }

// Key of the records of a room: its uuid as text, which is what Kafka's default partitioner hashes to the room's
// shard (domain.ShardOf). Takeovers have no key.
func Key(id uuid.UUID) []byte {
	b, err := id.MarshalText()
	if err != nil {
		panic(err) // it never fails
	}
	return b
}

const sizeUUID = 1 + 1 + 16 // tag, length, bytes; all field numbers here are below 16

func appendHead(dst []byte, at int64, time domain.Millis) []byte {
	dst = appendVarint(dst, numAt, uint64(at))
	return appendVarint(dst, numTime, uint64(time))
}

func appendVarint(dst []byte, num protowire.Number, x uint64) []byte {
	if x == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.VarintType), x)
}

func sizeVarint(x uint64) int {
	if x == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(x)
}

func appendString(dst []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, num, protowire.BytesType), s)
}

func sizeString(s string) int {
	if s == "" {
		return 0
	}
	return 1 + protowire.SizeBytes(len(s))
}

func appendUUID(dst []byte, num protowire.Number, id *uuid.UUID) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, num, protowire.BytesType), id[:])
}
