package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/chathome/chathome/domain"
)

// ErrOutOfRange: the offset lies below the log's start or above its end.
var ErrOutOfRange = errors.New("kafka: offset out of range")

const (
	fetchBytes = 1 << 20  // asked of the broker in one round of many: small, so that both ends have something to do
	firstBytes = 64 << 10 // asked in the first: whoever reads one record to compare it gets no more
	maxBatch   = 64 << 20 // a broker sends a batch whole, however large; beyond this it is taken for damage
	// DefaultMaxWait is how long an empty poll waits at the broker.
	DefaultMaxWait = 250 * time.Millisecond
	// dropAbove is how much of an answer is worth reading to its end after a visitor has had enough.
	dropAbove = 2 * firstBytes
)

// Reader reads one partition over a connection of its own, so that no other partition holds it up. It is for one
// goroutine at a time; Close may be called from any. It dials lazily and again after every error.
type Reader struct {
	cluster   *Cluster
	topic     string
	partition int32

	// MaxWait bounds the wait of an empty poll. Set it before the first Read.
	MaxWait time.Duration

	decoder       batchDecoder
	batch         []byte        // the batch being read, reused; grows to the largest one
	expected      domain.Offset // where a reader that goes on would ask next
	highWatermark domain.Offset
	logStart      domain.Offset

	mu     sync.Mutex
	conn   *conn
	seq    uint64 // of the route that led to conn
	closed bool
}

// Reader describes a reader of a partition; it does not dial.
func (c *Cluster) Reader(topic string, partition int32) *Reader {
	return &Reader{cluster: c, topic: topic, partition: partition, MaxWait: DefaultMaxWait, expected: -1}
}

// Read asks the broker once for what lies at and above from, up to 1 MiB, and visits the records in order until
// visit returns false. A value is valid during its visit only; it may be nil. Markers of foreign transactions come
// as records too: they take offsets. A nil error without visits says that nothing is there yet; it came after at
// most MaxWait, and at once where data were found that visit refused.
//
// Errors: ErrOutOfRange; ErrClosed; whatever ended ctx. All others are transient: back off and call again. Records
// visited before an error are whole and in order; go on behind the last of them.
func (r *Reader) Read(ctx context.Context, from domain.Offset, visit func(off domain.Offset, value []byte) bool) error {
	if from < 0 {
		return fmt.Errorf("read topic %s partition %d at %d: %w", r.topic, r.partition, from, ErrOutOfRange)
	}
	visited := false
	seen := func(off domain.Offset, value []byte) bool {
		visited = true
		return visit(off, value)
	}
	for {
		next, err := r.round(ctx, from, seen)
		r.expected = next
		if err != nil {
			return fmt.Errorf("read topic %s partition %d at %d: %w", r.topic, r.partition, from, lacking(rightRead, r.topic, r.cluster.failures.note(err)))
		}
		// Batches that hold no records (any more) are no reason to say that nothing is there.
		if visited || next <= from {
			return nil
		}
		from = next
	}
}

// HighWatermark is the end of the log as the last successful Read saw it: an estimate, as all such are.
func (r *Reader) HighWatermark() domain.Offset { return r.highWatermark }

// LogStart is the first offset that is still there, as the last successful Read saw it.
func (r *Reader) LogStart() domain.Offset { return r.logStart }

// Close ends a Read that is under way.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.conn != nil {
		r.conn.close()
		r.conn = nil
	}
	return nil
}

// round is one fetch. next is the offset behind what was read.
func (r *Reader) round(ctx context.Context, from domain.Offset, visit func(domain.Offset, []byte) bool) (next domain.Offset, err error) {
	k, err := r.connect(ctx)
	if err != nil {
		return 0, err
	}
	stop := k.guard(ctx)
	next, keep, err := r.fetch(ctx, k, from, visit)
	if alive := stop(); !alive || !keep || err != nil {
		r.disconnect(k)
	}
	if err == nil {
		return next, nil
	}
	switch {
	case r.isClosed() || r.cluster.ctx.Err() != nil:
		return 0, ErrClosed
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case errors.Is(err, ErrOutOfRange):
		return 0, err
	}
	r.cluster.leaderFailed(r.topic, r.seq)
	return 0, r.cluster.brokerError(k.addr, StageRequest, err)
}

func (r *Reader) connect(ctx context.Context) (*conn, error) {
	r.mu.Lock()
	k, closed := r.conn, r.closed
	r.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if k != nil {
		if time.Since(k.idleSince) < idleLimit {
			return k, nil
		}
		r.disconnect(k)
	}
	addr, seq, err := r.cluster.leader(ctx, r.topic, r.partition)
	if err != nil {
		return nil, err
	}
	k, err = r.cluster.dial(ctx, addr)
	if err != nil {
		r.cluster.leaderFailed(r.topic, seq)
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		k.close()
		return nil, ErrClosed
	}
	k.idleSince = time.Now()
	r.conn, r.seq = k, seq
	return k, nil
}

func (r *Reader) disconnect(k *conn) {
	k.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.conn == k {
		r.conn = nil
	}
}

func (r *Reader) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

// fetch reads the answer batch by batch: memory holds one batch, not all that is under way. keep says that the
// connection is in step for the next request.
func (r *Reader) fetch(ctx context.Context, k *conn, from domain.Offset, visit func(domain.Offset, []byte) bool) (next domain.Offset, keep bool, err error) {
	version, err := k.version(protocol.Fetch, fetchMin, fetchMax)
	if err != nil {
		return 0, false, err
	}
	// The broker may take long to answer without being dead: it reads from a cold disk, or holds us to a quota.
	patience := 5 * r.cluster.cfg.RPCTimeout
	if err := k.net.SetReadDeadline(time.Now().Add(r.MaxWait + patience)); err != nil {
		return 0, false, err
	}
	size := firstBytes
	if from == r.expected {
		size = fetchBytes
	}
	if err := k.send(appendFetch(k.begin(protocol.Fetch, version), version, r.topic, r.partition, from, r.MaxWait, size)); err != nil {
		return 0, false, err
	}
	f, err := k.receiveFetch(version, r.partition, fetchBytes+maxBatch)
	if err != nil {
		return 0, false, err
	}
	switch f.code {
	case 0:
	case kafka.OffsetOutOfRange:
		return 0, true, ErrOutOfRange
	default:
		return 0, false, f.code
	}
	r.highWatermark, r.logStart = f.highWatermark, f.logStart
	k.idleSince = time.Now()

	next = from
	behind := domain.Offset(-1) // end of the batch before
	for left := f.left; left > 0; {
		if err := ctx.Err(); err != nil {
			return 0, false, err
		}
		if err := k.net.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return 0, false, err
		}
		batch, err := r.readBatch(k, left)
		if err != nil {
			return 0, false, err
		}
		if batch == nil { // cut at MaxBytes: the broker sends it again, whole
			if behind < 0 {
				return 0, false, damaged("the first batch is cut")
			}
			_, err := k.pc.Discard(left)
			return next, err == nil, err
		}
		left -= len(batch)
		end, more, err := r.decoder.decode(batch, behind, from, visit)
		if err != nil {
			return 0, false, err
		}
		behind = end
		next = max(next, end)
		if !more {
			if left > dropAbove {
				return next, false, nil
			}
			_, err := k.pc.Discard(left)
			return next, err == nil, err
		}
	}
	return next, true, nil
}

// readBatch reads the next batch into the reader's buffer; nil where less than a whole one is left.
func (r *Reader) readBatch(k *conn, left int) ([]byte, error) {
	if left < batchLengthEnd {
		return nil, nil
	}
	head, err := k.pc.Peek(batchLengthEnd)
	if err != nil {
		return nil, err
	}
	length := int(int32(uint32(head[8])<<24 | uint32(head[9])<<16 | uint32(head[10])<<8 | uint32(head[11])))
	if length < batchHeader-batchLengthEnd || length > maxBatch {
		return nil, damaged("batch of %d bytes", length)
	}
	size := batchLengthEnd + length
	if size > left {
		return nil, nil
	}
	if cap(r.batch) < size {
		r.batch = make([]byte, size, size+size/4)
	}
	b := r.batch[:size]
	if _, err := io.ReadFull(k.pc, b); err != nil {
		return nil, err
	}
	return b, nil
}
