package model

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// MessageID is what Message.id names. Client caches key on it, so there is one spelling for one message, and
// no message shares it with a room: a room's uuid has 36 characters, this has 39.
type MessageID struct {
	Room   uuid.UUID
	Serial domain.Serial
}

const (
	messageIDKind = 3 // cursors begin with 1 and 2: none is mistaken for the other
	messageIDLen  = 1 + 16 + 8 + 4
)

var (
	messageIDEncoding = base64.RawURLEncoding.Strict()
	castagnoli        = crc32.MakeTable(crc32.Castagnoli)
)

// String is the opaque form: url-safe, with a checksum, so that a mistyped one names nothing.
func (id MessageID) String() string {
	var b [messageIDLen]byte
	b[0] = messageIDKind
	copy(b[1:], id.Room[:])
	binary.BigEndian.PutUint64(b[17:], uint64(id.Serial))
	binary.BigEndian.PutUint32(b[25:], crc32.Checksum(b[:25], castagnoli))
	return messageIDEncoding.EncodeToString(b[:])
}

// ParseMessageID takes what String makes and nothing else.
func ParseMessageID(s string) (MessageID, bool) {
	var b [messageIDLen]byte
	if len(s) != messageIDEncoding.EncodedLen(messageIDLen) {
		return MessageID{}, false
	}
	if n, err := messageIDEncoding.Decode(b[:], []byte(s)); err != nil || n != messageIDLen {
		return MessageID{}, false
	}
	if b[0] != messageIDKind || binary.BigEndian.Uint32(b[25:]) != crc32.Checksum(b[:25], castagnoli) {
		return MessageID{}, false
	}
	id := MessageID{Serial: domain.Serial(binary.BigEndian.Uint64(b[17:]))}
	copy(id.Room[:], b[1:])
	return id, id.Serial > 0
}
