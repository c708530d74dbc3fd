package kafkalog

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"pgregory.net/rapid"

	"github.com/chathome/chathome/domain"
)

// What is decoded is what was encoded, and every single flipped bit is noticed or harmless to the offsets.
func TestBatch_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		records := make([]Record, n)
		bytesOrNil := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 200))
		for i := range records {
			records[i] = Record{Key: bytesOrNil.Draw(t, "key"), Value: bytesOrNil.Draw(t, "value")}
		}
		b := appendBatch(nil, records)
		if len(b) != BatchBytes(records) {
			t.Fatalf("%d bytes, BatchBytes says %d", len(b), BatchBytes(records))
		}
		base := rapid.Int64Range(0, 1<<40).Draw(t, "base")
		binary.BigEndian.PutUint64(b, uint64(base))
		from := base + rapid.Int64Range(-2, int64(n)+2).Draw(t, "from")
		want := max(base, from)
		var d batchDecoder
		next, more, err := d.decode(b, -1, domain.Offset(from), func(off domain.Offset, v []byte) bool {
			r := records[off-domain.Offset(base)]
			if int64(off) != want || !bytes.Equal(v, r.Value) || (v == nil) != (r.Value == nil) {
				t.Fatalf("offset %d, want %d: %q, want %q", off, want, v, r.Value)
			}
			want++
			return true
		})
		if err != nil || !more || int64(next) != base+int64(n) || want != max(base+int64(n), from) {
			t.Fatalf("next %d, more %v, want %d, %v", next, more, want, err)
		}
		at := rapid.IntRange(16, len(b)-1).Draw(t, "at") // what lies before is the broker's to write
		b[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if _, _, err := d.decode(b, -1, 0, func(domain.Offset, []byte) bool { t.Fatal("visited a damaged batch"); return false }); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d flipped: %v", at, err)
		}
	})
}

func FuzzDecodeBatch(f *testing.F) {
	good := appendBatch(nil, []Record{{Key: []byte("k"), Value: []byte("v")}, {Value: []byte("w")}})
	f.Add(good, int64(0), true)
	f.Add(good[:30], int64(1), false)
	for codec := range byte(5) {
		b := bytes.Clone(good)
		b[22] = codec
		f.Add(b, int64(0), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, from int64, sealed bool) {
		if sealed && len(b) >= batchHeader { // past the checksum, to the parts behind it
			binary.BigEndian.PutUint32(b[8:], uint32(len(b)-batchLengthEnd))
			b[batchMagicAt] = batchMagic
			binary.BigEndian.PutUint32(b[batchCRCAt:], crc32.Checksum(b[batchCRCFrom:], castagnoli))
		}
		var d batchDecoder
		last := domain.Offset(from) - 1
		next, _, err := d.decode(b, -1, domain.Offset(from), func(off domain.Offset, _ []byte) bool {
			if off <= last {
				t.Errorf("offset %d after %d, asked from %d", off, last, from)
			}
			last = off
			return true
		})
		if err == nil && last >= domain.Offset(from) && next <= last {
			t.Errorf("next is %d behind record %d", next, last)
		}
	})
}

// fuzzConn reads what a broker would have sent.
func fuzzConn(data []byte) *conn {
	return &conn{pc: protocol.NewConn(readOnly{r: bufio.NewReader(bytes.NewReader(data))}, "fuzz"), correlation: 1}
}

func FuzzReceiveFetch(f *testing.F) {
	f.Add([]byte{0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 0}, int16(10))
	f.Add(fetchAnswer(10, appendBatch(nil, []Record{{Value: []byte("v")}})), int16(10))
	f.Add(fetchAnswer(5, nil), int16(5))
	f.Fuzz(func(t *testing.T, data []byte, version int16) {
		if version < fetchMin || version > fetchMax {
			return
		}
		k := fuzzConn(data)
		got, err := k.receiveFetch(version, 0, 1<<20)
		if err == nil && (got.left < 0 || got.left > len(data)) {
			t.Errorf("%d bytes left of %d", got.left, len(data))
		}
	})
}

func fetchAnswer(version int16, records []byte) []byte {
	put := binary.BigEndian
	b := []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}
	if version >= 7 {
		b = append(b, make([]byte, 6)...)
	}
	b = put.AppendUint32(b, 1)
	b = appendString(b, "t")
	b = put.AppendUint32(b, 1)
	b = append(b, make([]byte, 4+2+8+8+8)...)
	b = put.AppendUint32(b, ^uint32(0))
	b = put.AppendUint32(b, uint32(len(records)))
	b = append(b, records...)
	put.PutUint32(b, uint32(len(b)-4))
	return b
}

func FuzzDecodeProduce(f *testing.F) {
	b := binary.BigEndian.AppendUint32(nil, 1)
	b = appendString(b, "t")
	b = binary.BigEndian.AppendUint32(b, 1)
	b = append(b, make([]byte, 4+2+8+8+8+4+2+4)...)
	f.Add(b, int16(8))
	f.Add(b, int16(3))
	f.Fuzz(func(t *testing.T, data []byte, version int16) {
		res, err := decodeProduce(&decoder{b: data}, version, "t", 0)
		if err == nil && res.code == kafka.Error(0) && len(data) < 30 {
			t.Errorf("acknowledged at %d by %d bytes", res.base, len(data))
		}
	})
}

// readOnly is a connection of which only Read is used.
type readOnly struct {
	nopConn
	r io.Reader
}

func (c readOnly) Read(p []byte) (int, error) { return c.r.Read(p) }

func TestDecode_NoAllocationPerRecord(t *testing.T) {
	records := make([]Record, 1000)
	for i := range records {
		records[i] = Record{Key: []byte("key"), Value: []byte("value")}
	}
	b := appendBatch(nil, records)
	var d batchDecoder
	seen := 0
	visit := func(domain.Offset, []byte) bool { seen++; return true }
	if n := testing.AllocsPerRun(10, func() { _, _, _ = d.decode(b, -1, 0, visit) }); n != 0 {
		t.Errorf("%v allocations for %d records", n, len(records))
	}
	buf := make([]byte, 0, 2*len(b))
	if n := testing.AllocsPerRun(10, func() { buf = appendBatch(buf[:0], records) }); n != 0 {
		t.Errorf("%v allocations to encode %d records", n, len(records))
	}
}
