package domain

import (
	"time"

	"github.com/google/uuid"
)

// ShardID is the number of a shard: the number of a partition of the messages topic.
type ShardID int32

// Serial numbers the messages of one room 1, 2, 3 … without gaps. 0 stands before the first message.
// The room list uses it likewise for the order of first announcement.
type Serial int64

// Offset is a position in a shard's log. The offset of a takeover is the version of that ownership.
type Offset int64

// Millis is a point in time in milliseconds since 1970-01-01T00:00:00Z: the resolution that is stored.
type Millis int64

// Time is m as a time in UTC.
func (m Millis) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// MillisOf cuts t to milliseconds.
func MillisOf(t time.Time) Millis { return Millis(t.UnixMilli()) }

// ShardOf names the shard of a room as Kafka's default partitioner would for the key id.String():
// (murmur2(key) & 0x7fffffff) mod shards. shards must be positive.
func ShardOf(id uuid.UUID, shards int) ShardID {
	var key [36]byte
	return ShardID(int(murmur2(AppendRoomID(key[:0], id))&0x7fffffff) % shards)
}

// AppendRoomID appends id.String() without allocating.
func AppendRoomID(dst []byte, id uuid.UUID) []byte {
	const hex = "0123456789abcdef"
	for i, b := range id {
		if i == 4 || i == 6 || i == 8 || i == 10 {
			dst = append(dst, '-')
		}
		dst = append(dst, hex[b>>4], hex[b&15])
	}
	return dst
}

// murmur2 is org.apache.kafka.common.utils.Utils.murmur2.
func murmur2(data []byte) uint32 {
	const (
		seed uint32 = 0x9747b28c
		m    uint32 = 0x5bd1e995
		r           = 24
	)
	h := seed ^ uint32(len(data))
	for ; len(data) >= 4; data = data[4:] {
		k := uint32(data[0]) | uint32(data[1])<<8 | uint32(data[2])<<16 | uint32(data[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h *= m
		h ^= k
	}
	switch len(data) {
	case 3:
		h ^= uint32(data[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(data[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(data[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}

// ParseRoomID takes a canonical uuid: 36 characters, lower case, with hyphens. Any other spelling is refused,
// so that one room never has two names in a client's cache.
func ParseRoomID(s string) (uuid.UUID, bool) {
	if len(s) != 36 {
		return uuid.UUID{}, false
	}
	for i := range len(s) {
		if c := s[i]; c >= 'A' && c <= 'F' {
			return uuid.UUID{}, false
		}
	}
	id, err := uuid.Parse(s)
	return id, err == nil
}
