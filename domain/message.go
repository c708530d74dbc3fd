package domain

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/google/uuid"
)

// Message is one stored message. It never changes.
type Message struct {
	Room     uuid.UUID
	Serial   Serial
	User     string // a claim, not a proof: see the README
	ClientID string // chosen by the client, unique per (room, user)
	Text     string // byte for byte as it was sent
	SentAt   Millis // given by the owner; never steps back within a room
}

// Draft is a message that a client wants stored.
type Draft struct {
	User     string
	ClientID string
	Text     string
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Hash tells this message from another that took its place in another life of the log. It is part of the
// cursor format: changing it makes every cursor that clients hold invalid.
func (m *Message) Hash() uint32 {
	var b [24]byte
	binary.LittleEndian.PutUint64(b[0:], uint64(m.Serial))
	binary.LittleEndian.PutUint64(b[8:], uint64(m.SentAt))
	binary.LittleEndian.PutUint32(b[16:], uint32(len(m.User)))
	binary.LittleEndian.PutUint32(b[20:], uint32(len(m.ClientID)))
	h := crc32.Update(0, castagnoli, m.Room[:])
	h = crc32.Update(h, castagnoli, b[:])
	h = hashString(h, m.User)
	h = hashString(h, m.ClientID)
	return hashString(h, m.Text)
}

func hashString(h uint32, s string) uint32 {
	var buf [64]byte
	for len(s) > 0 {
		n := copy(buf[:], s)
		h = crc32.Update(h, castagnoli, buf[:n])
		s = s[n:]
	}
	return h
}
