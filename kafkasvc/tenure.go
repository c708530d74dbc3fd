package kafkasvc

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/local"
)

// partition is the log of one shard.
type partition interface {
	// Append makes one produce request with one record batch; see kafkalog.AppendError.
	Append(ctx context.Context, records []kafkalog.Record) (base domain.Offset, err error)
	// Bounds are the log's start and an estimate of its end.
	Bounds(ctx context.Context) (start, end domain.Offset, err error)
	// Reader reads on a connection of its own.
	Reader() reader
}

type reader interface {
	// Read makes one round: it visits what lies at from and above until visit says false. See
	// kafkalog.Reader.
	Read(ctx context.Context, from domain.Offset, visit func(off domain.Offset, value []byte) bool) error
	Close() error
}

// generation is this instance's membership between two rebalances.
type generation struct {
	id     int32
	member string
	lease  lease
}

// lease fences reads: see package membership.
type lease interface {
	// Valid says whether answers may leave now. It is cheap and takes no lock.
	Valid() bool
	// Confirm waits for a heartbeat that is sent after this call to succeed: the generation lives. It
	// fails when the generation is over.
	Confirm(ctx context.Context) error
}

// shard is what an instance keeps of one shard across generations.
type shard struct {
	id    domain.ShardID
	log   partition
	store func() *local.Shard // a handle on what the local store holds now; stale after a drop
	ids   *tenureIDs

	counts shardCounters

	mu      sync.Mutex
	current *tenure // the one whose commits go into the store

	announced atomic.Bool   // every room of the local data was held against the directory
	announce  chan struct{} // somebody has something to announce
}

// tenure is one ownership of a shard, from its takeover to its end. No command and no room handle crosses
// from one to the next.
type tenure struct {
	id         uuid.UUID
	generation *generation
	shard      *shard
	gate       *gate
	store      *local.Shard // what was loaded
	queue      *queue
	rooms      *rooms
	inFlight   *atomic.Pointer[batch] // the writer's; nil until it runs

	cancel context.CancelCauseFunc // ends it before its generation

	loaded atomic.Int64 // next offset to read
	begun  atomic.Bool  // loaded is known
	target atomic.Int64 // offset of the takeover
}

var errNotCurrent = errors.New("the tenure has ended")

func (s *shard) begin(t *tenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = t
}

// end makes t's commits void. It waits for a commit that is under way.
func (s *shard) end(t *tenure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == t {
		s.current = nil
	}
}

// commit runs f if t is its shard's current tenure, in one critical section with that check: an ended tenure
// applies nothing.
func (t *tenure) commit(f func() error) error {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	if t.shard.current != t {
		return errNotCurrent
	}
	return f()
}

// holds says whether answers of t may leave.
func (t *tenure) holds() error { return t.gate.holds(t) }

func (t *tenure) lock(reason string) {
	t.gate.place(t.generation, t.shard.id, place{phase: phaseLocked, reason: reason})
}

// breakDown ends t because its local data cannot be read: locked first, then loaded anew by its keeper.
func (t *tenure) breakDown(cause error) error {
	t.lock("the local store failed")
	t.cancel(errors.Join(errStore, cause))
	if no := t.gate.refusal(t.shard.id); no != nil {
		return no
	}
	return t.gate.busy(t.shard.id)
}

// progress of loading: both are "next" offsets, so that they meet when it is through.
func (t *tenure) progress() domain.Progress {
	return domain.Progress{Loaded: domain.Offset(t.loaded.Load()), Target: domain.Offset(t.target.Load() + 1)}
}
