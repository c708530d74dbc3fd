package kafkalog

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// Record is what a writer appends. A nil key is no key.
type Record struct{ Key, Value []byte }

// The record batch format, version 2: https://kafka.apache.org/documentation/#recordbatch
const (
	batchHeader     = 61 // bytes before the first record
	batchLengthEnd  = 12 // the length counts what follows it
	batchMagicAt    = 16
	batchCRCAt      = 17
	batchCRCFrom    = 21 // the checksum covers what follows it
	batchMagic      = 2
	codecMask       = 0x07
	noTimestamp     = -1
	recordAttrs     = 1 // bytes
	minRecordLength = 6 // attributes, two deltas, key, value, headers: a byte each
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// BatchBytes is the size of a record batch of these records, as max.message.bytes counts it.
func BatchBytes(records []Record) int {
	n := batchHeader
	for i := range records {
		n += RecordBytes(i, records[i])
	}
	return n
}

// RecordBytes is what a record adds to a batch as its i-th.
func RecordBytes(i int, r Record) int {
	n := recordLength(i, r)
	return varintLen(int64(n)) + n
}

func recordLength(i int, r Record) int {
	key := varintLen(-1)
	if r.Key != nil {
		key = varintLen(int64(len(r.Key))) + len(r.Key)
	}
	value := varintLen(-1)
	if r.Value != nil {
		value = varintLen(int64(len(r.Value))) + len(r.Value)
	}
	return recordAttrs + varintLen(0) + varintLen(int64(i)) + key + value + varintLen(0)
}

// appendBatch appends one record batch.
//
// The records carry no time: a broker refuses times that are an hour ahead of its own, and no instance's clock may
// stop a shard. With message.timestamp.type=LogAppendTime the broker puts its own in.
func appendBatch(b []byte, records []Record) []byte {
	start := len(b)
	b = append(b, make([]byte, batchHeader)...)
	for i := range records {
		r := &records[i]
		b = binary.AppendVarint(b, int64(recordLength(i, *r)))
		b = append(b, 0)                     // attributes
		b = binary.AppendVarint(b, 0)        // time delta
		b = binary.AppendVarint(b, int64(i)) // offset delta
		b = appendVarBytes(b, r.Key)
		b = appendVarBytes(b, r.Value)
		b = binary.AppendVarint(b, 0) // headers
	}
	h := b[start:]
	put := binary.BigEndian
	put.PutUint64(h[0:], 0) // base offset: the broker's to say
	put.PutUint32(h[8:], uint32(len(h)-batchLengthEnd))
	put.PutUint32(h[12:], ^uint32(0)) // leader epoch: the broker's to say
	h[batchMagicAt] = batchMagic
	put.PutUint16(h[21:], 0) // attributes: no compression, no transaction
	put.PutUint32(h[23:], uint32(len(records)-1))
	none := int64(noTimestamp)
	put.PutUint64(h[27:], uint64(none)) // first time
	put.PutUint64(h[35:], uint64(none)) // newest time
	put.PutUint64(h[43:], ^uint64(0))   // producer id: none
	put.PutUint16(h[51:], ^uint16(0))   // producer epoch
	put.PutUint32(h[53:], ^uint32(0))   // sequence
	put.PutUint32(h[57:], uint32(len(records)))
	put.PutUint32(h[batchCRCAt:], crc32.Checksum(h[batchCRCFrom:], castagnoli))
	return b
}

func appendVarBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	b = binary.AppendVarint(b, int64(len(v)))
	return append(b, v...)
}

func varintLen(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}
