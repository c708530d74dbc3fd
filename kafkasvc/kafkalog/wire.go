package kafkalog

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrDamaged: the bytes are not what the protocol allows. The connection is dialled again.
var ErrDamaged = errors.New("damaged data from the broker")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// decoder reads big-endian protocol fields. It never reads beyond its bytes and never allocates by a length that
// it was told; after the first fault it answers zeros.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	if n < 0 || n > len(d.b) {
		d.err = damaged("%d bytes where %d are left", n, len(d.b))
		return nil
	}
	b := d.b[:n:n]
	d.b = d.b[n:]
	return b
}

func (d *decoder) int16() int16 {
	if b := d.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (d *decoder) int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// string also reads nullable strings; null is "".
func (d *decoder) string() string {
	n := d.int16()
	if n <= 0 {
		return ""
	}
	return string(d.take(int(n)))
}

// count reads an array's length and bounds it by what the bytes left could hold.
func (d *decoder) count(minSize int) int {
	n := d.int32()
	if n < 0 {
		return 0
	}
	if int(n) > len(d.b)/minSize {
		if d.err == nil {
			d.err = damaged("array of %d where %d bytes are left", n, len(d.b))
		}
		return 0
	}
	return int(n)
}
