package local

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// The index leads from (room, user, client id) to a serial. An entry is a fingerprint (32 bits of a hash of the
// three) and the serial, in a bucket that other bits of the hash name. Buckets belong to the shard, not to a room:
// a hundred thousand small rooms would otherwise need a row each in every chunk that is loaded.
//
// How much a lookup reads must not depend on how long the history is, so the number of buckets grows with the log,
// by levels: a record's level follows from its offset alone, and level L has 16^L times the buckets of level 0 for 16^L
// times the records. A full bucket has 512 entries on average, about 4 KiB. A lookup reads one bucket a level: one
// up to 262,144 records in the shard, two up to 4 million, three up to 67 million, four up to a billion. More
// and smaller buckets would read less but load slower: 200,000 messages loaded in one chunk should meet in few rows.
//
// The hash has a secret key (drawn with the store): a client cannot choose ids that crowd into one bucket.
const (
	level0Records = 18 // log2
	level0Buckets = 9  // log2: 512 records a bucket
	levelFactor   = 4  // log2: 16
	maxLevel      = 5  // 2^38 records; later ones stay at this level
)

// bucket names one row of the index.
type bucket struct {
	level  byte
	number uint32
}

// levelOf is the level of a record at this offset.
func levelOf(at domain.Offset) byte {
	n := bits.Len64(uint64(max(at, 0))) // offsets below 2^18 have at most 18 bits
	if n <= level0Records {
		return 0
	}
	return byte(min((n-level0Records+levelFactor-1)/levelFactor, maxLevel))
}

// bucketOf takes the upper bits of the hash; the fingerprint takes the lower ones.
func bucketOf(level byte, hash uint64) bucket {
	return bucket{level, uint32(hash >> (64 - level0Buckets - levelFactor*int(level)))}
}

func fingerprint(hash uint64) uint32 { return uint32(hash) }

func appendIndexEntry(dst []byte, print uint32, serial domain.Serial) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, print)
	return binary.AppendUvarint(dst, uint64(serial))
}

func indexEntryLen(serial domain.Serial) int { return 4 + (bits.Len64(uint64(serial)|1)+6)/7 }

// eachMatch calls visit with the serials of a bucket's entries that have this fingerprint, until it answers false.
func eachMatch(row []byte, print uint32, visit func(domain.Serial) bool) error {
	for len(row) > 0 {
		if len(row) < 5 {
			return errIndex()
		}
		have := binary.LittleEndian.Uint32(row)
		n := 5
		for row[n-1] >= 0x80 { // skips the serial: most are not wanted
			if n++; n > len(row) {
				return errIndex()
			}
		}
		if have == print {
			serial, m := binary.Uvarint(row[4:n])
			if m != n-4 || serial == 0 || serial > 1<<63-1 {
				return errIndex()
			}
			if !visit(domain.Serial(serial)) {
				return nil
			}
		}
		row = row[n:]
	}
	return nil
}

func errIndex() error { return fmt.Errorf("%w: index entry", ErrCorrupt) }

// hashKey is the secret of the index.
type hashKey [16]byte

// hash of a message's name. scratch is used and handed back.
func (k *hashKey) hash(scratch []byte, room *uuid.UUID, user, clientID []byte) (uint64, []byte) {
	scratch = append(scratch[:0], room[:]...)
	scratch = binary.AppendUvarint(scratch, uint64(len(user))) // where the user ends is part of the name
	scratch = append(scratch, user...)
	scratch = append(scratch, clientID...)
	return sipHash(k, scratch), scratch
}

// sipHash is SipHash-2-4 (Aumasson, Bernstein: "SipHash: a fast short-input PRF").
func sipHash(k *hashKey, b []byte) uint64 {
	k0, k1 := binary.LittleEndian.Uint64(k[0:]), binary.LittleEndian.Uint64(k[8:])
	v0, v1, v2, v3 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d, k0^0x6c7967656e657261, k1^0x7465646279746573
	length := uint64(len(b))
	for ; len(b) >= 8; b = b[8:] {
		m := binary.LittleEndian.Uint64(b)
		v3 ^= m
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
		v0 ^= m
	}
	m := length << 56
	for i, c := range b {
		m |= uint64(c) << (8 * i)
	}
	v3 ^= m
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	v0 ^= m
	v2 ^= 0xff
	for range 4 {
		v0, v1, v2, v3 = sipRound(v0, v1, v2, v3)
	}
	return v0 ^ v1 ^ v2 ^ v3
}

func sipRound(v0, v1, v2, v3 uint64) (uint64, uint64, uint64, uint64) {
	v0 += v1
	v2 += v3
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v1
	v0 += v3
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 = bits.RotateLeft64(v2, 32)
	return v0, v1, v2, v3
}
