package kafkalog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/segmentio/kafka-go/compress"

	"github.com/chathome/chathome/domain"
)

// maxInflated bounds what a compressed batch may unpack to. Ours are never compressed.
const maxInflated = 64 << 20

// batchDecoder turns the bytes of record batches into records. It is reused: its buffer holds the last compressed
// batch, unpacked.
type batchDecoder struct{ inflated bytes.Buffer }

// decode visits the records at or above from in one whole batch, whose values alias it, until visit returns false.
// next is the offset behind the batch, also where the batch holds no records any more (compaction leaves such). A
// batch of which one byte is wrong yields ErrDamaged before the first visit, as far as its checksum can tell. after is
// the offset behind the batch before: offsets never step back.
func (d *batchDecoder) decode(batch []byte, after, from domain.Offset, visit func(domain.Offset, []byte) bool) (next domain.Offset, more bool, err error) {
	if len(batch) < batchHeader {
		return 0, false, damaged("batch of %d bytes", len(batch))
	}
	be := binary.BigEndian
	if m := batch[batchMagicAt]; m != batchMagic {
		return 0, false, damaged("record format %d", m)
	}
	if int(int32(be.Uint32(batch[8:]))) != len(batch)-batchLengthEnd {
		return 0, false, damaged("length of the batch")
	}
	if crc32.Checksum(batch[batchCRCFrom:], castagnoli) != be.Uint32(batch[batchCRCAt:]) {
		return 0, false, damaged("checksum of the batch")
	}
	base := domain.Offset(be.Uint64(batch))
	codec := compress.Compression(be.Uint16(batch[21:]) & codecMask)
	lastDelta := int32(be.Uint32(batch[23:]))
	count := int32(be.Uint32(batch[57:]))
	if base < after || base < 0 || lastDelta < 0 || count < 0 || base > maxOffset {
		return 0, false, damaged("batch at %d behind %d with %d records up to %d", base, after, count, lastDelta)
	}
	next = base + domain.Offset(lastDelta) + 1
	if next <= from {
		return next, true, nil
	}
	records := batch[batchHeader:]
	if codec != compress.None {
		if records, err = d.inflate(codec, records); err != nil {
			return 0, false, err
		}
	}
	if int(count) > len(records)/(minRecordLength+1) {
		return 0, false, damaged("%d records in %d bytes", count, len(records))
	}
	more, err = decodeRecords(records, int(count), base, lastDelta, from, visit)
	return next, more, err
}

// maxOffset leaves room for a delta.
const maxOffset = domain.Offset(1<<63 - 1<<32)

func decodeRecords(b []byte, count int, base domain.Offset, lastDelta int32, from domain.Offset, visit func(domain.Offset, []byte) bool) (more bool, err error) {
	previous := int64(-1)
	for range count {
		length, n := binary.Varint(b)
		if n <= 0 || length < minRecordLength || length > int64(len(b)-n) {
			return false, damaged("length of a record")
		}
		r := b[n+1 : n+int(length)] // without the attributes
		b = b[n+int(length):]
		_, n = binary.Varint(r) // time
		if n <= 0 {
			return false, damaged("time of a record")
		}
		r = r[n:]
		delta, n := binary.Varint(r)
		if n <= 0 || delta <= previous || delta > int64(lastDelta) {
			return false, damaged("offset of a record")
		}
		previous = delta
		_, r, ok := varBytes(r[n:]) // key
		if !ok {
			return false, damaged("key of a record")
		}
		value, _, ok := varBytes(r)
		if !ok {
			return false, damaged("value of a record")
		}
		// Headers follow; nobody needs them, and the record's length has led past them.
		if off := base + domain.Offset(delta); off >= from && !visit(off, value) {
			return false, nil
		}
	}
	if len(b) != 0 {
		return false, damaged("%d bytes behind the last record", len(b))
	}
	return true, nil
}

// varBytes reads a length and as many bytes; -1 is nil.
func varBytes(b []byte) (v, rest []byte, ok bool) {
	length, n := binary.Varint(b)
	if n <= 0 || length < -1 || length > int64(len(b)-n) {
		return nil, nil, false
	}
	if length < 0 {
		return nil, b[n:], true
	}
	end := n + int(length)
	return b[n:end:end], b[end:], true
}

func (d *batchDecoder) inflate(c compress.Compression, packed []byte) (_ []byte, err error) {
	codec := c.Codec()
	if codec == nil {
		return nil, damaged("unknown compression %d", c)
	}
	defer func() {
		if r := recover(); r != nil { // a decompressor's panic is a damaged batch, not a broken process
			err = damaged("%s: %v", codec.Name(), r)
		}
	}()
	r := codec.NewReader(bytes.NewReader(packed))
	defer r.Close()
	d.inflated.Reset()
	n, err := d.inflated.ReadFrom(io.LimitReader(r, maxInflated+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, codec.Name(), err)
	}
	if n > maxInflated {
		return nil, damaged("a batch unpacks to more than %d bytes", maxInflated)
	}
	return d.inflated.Bytes(), nil
}
