package kafkalog

import (
	"encoding/binary"
	"io"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/chathome/chathome/domain"
)

// Versions of the fetch request: 5 is the first that tells the log's start, 10 the last before replicas may send a
// reader elsewhere.
const fetchMin, fetchMax = 5, 10

func appendFetch(b []byte, version int16, topic string, partition int32, from domain.Offset, wait time.Duration, maxBytes int) []byte {
	put := binary.BigEndian
	b = put.AppendUint32(b, ^uint32(0)) // replica: none
	b = put.AppendUint32(b, uint32(wait.Milliseconds()))
	b = put.AppendUint32(b, 1) // at least this many bytes, or wait
	b = put.AppendUint32(b, uint32(maxBytes))
	b = append(b, 0) // read uncommitted: our records are never transactional, and a foreign one may hang for ever
	if version >= 7 {
		b = put.AppendUint32(b, 0)          // session: none
		b = put.AppendUint32(b, ^uint32(0)) // session epoch: full fetch
	}
	b = put.AppendUint32(b, 1) // topics
	b = appendString(b, topic)
	b = put.AppendUint32(b, 1) // partitions
	b = put.AppendUint32(b, uint32(partition))
	if version >= 9 {
		b = put.AppendUint32(b, ^uint32(0)) // leader epoch: not known
	}
	b = put.AppendUint64(b, uint64(from))
	b = put.AppendUint64(b, 0) // log start: for replicas
	b = put.AppendUint32(b, uint32(maxBytes))
	if version >= 7 {
		b = put.AppendUint32(b, 0) // forgotten topics
	}
	return b
}

// fetched is the answer to a fetch up to its record batches, which are read one by one.
type fetched struct {
	code          kafka.Error
	highWatermark domain.Offset
	logStart      domain.Offset
	left          int // bytes of batches
}

// receiveFetch reads an answer up to its batches. body is bounded by limit.
func (k *conn) receiveFetch(version int16, partition int32, limit int) (f fetched, err error) {
	size, err := k.receiveHeader(limit)
	if err != nil {
		return f, err
	}
	s := &stream{r: k.pc, left: size, scratch: k.small(32)}
	s.int32() // throttle time
	if version >= 7 {
		if code := kafka.Error(s.int16()); code != 0 && s.err == nil {
			f.code = code
			return f, s.discard()
		}
		s.int32() // session
	}
	if n := s.int32(); n != 1 && s.err == nil {
		return f, damaged("%d topics in the answer to a fetch", n)
	}
	s.skip(int(s.int16())) // topic
	if n := s.int32(); n != 1 && s.err == nil {
		return f, damaged("%d partitions in the answer to a fetch", n)
	}
	if p := s.int32(); p != partition && s.err == nil {
		return f, damaged("answer for another partition")
	}
	f.code = kafka.Error(s.int16())
	f.highWatermark = domain.Offset(s.int64())
	s.int64() // last stable offset
	f.logStart = domain.Offset(s.int64())
	if n := int(s.int32()); n > 0 { // aborted transactions; -1: none
		if n > s.left/16 && s.err == nil {
			return f, damaged("array of %d where %d bytes are left", n, s.left)
		}
		s.skip(n * 16)
	}
	n := int(s.int32())
	if s.err != nil {
		return f, s.err
	}
	if n < 0 {
		n = 0
	}
	if n != s.left {
		return f, damaged("%d bytes of records where %d are left", n, s.left)
	}
	if f.code != 0 {
		return f, s.discard()
	}
	f.left = n
	return f, nil
}

// stream reads protocol fields from a connection and never beyond the answer's end.
type stream struct {
	r interface {
		io.Reader
		Discard(int) (int, error)
	}
	left    int
	scratch []byte
	err     error
}

func (s *stream) take(n int) []byte {
	if s.err != nil {
		return nil
	}
	if n > s.left {
		s.err = damaged("%d bytes where %d are left", n, s.left)
		return nil
	}
	if _, s.err = io.ReadFull(s.r, s.scratch[:n]); s.err != nil {
		return nil
	}
	s.left -= n
	return s.scratch[:n]
}

func (s *stream) skip(n int) {
	if s.err != nil {
		return
	}
	if n < 0 || n > s.left {
		s.err = damaged("%d bytes where %d are left", n, s.left)
		return
	}
	_, s.err = s.r.Discard(n)
	s.left -= n
}

func (s *stream) discard() error {
	s.skip(s.left)
	return s.err
}

func (s *stream) int16() int16 {
	if b := s.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (s *stream) int32() int32 {
	if b := s.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (s *stream) int64() int64 {
	if b := s.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}
