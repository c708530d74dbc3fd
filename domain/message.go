package domain

import "github.com/google/uuid"

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

// Hash tells this message from another that took its place in another life of the log. It is part of the
// cursor format: changing it makes every cursor that clients hold invalid.
func (m *Message) Hash() uint32 {
	h := fnvOffset
	h = hashUint64(h, uint64(m.Serial))
	h = hashUint64(h, uint64(m.SentAt))
	h = hashUint64(h, uint64(len(m.User))<<32|uint64(len(m.ClientID)))
	for _, b := range m.Room {
		h = (h ^ uint64(b)) * fnvPrime
	}
	h = hashString(h, m.User)
	h = hashString(h, m.ClientID)
	h = hashString(h, m.Text)
	return uint32(h) ^ uint32(h>>32)
}

// FNV-1a, written out because hash/fnv allocates.
const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
)

func hashUint64(h, v uint64) uint64 {
	for range 8 {
		h = (h ^ v&0xff) * fnvPrime
		v >>= 8
	}
	return h
}

func hashString(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}
