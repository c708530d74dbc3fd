package kafkasvc

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// command is one wish to write, from its arrival in the queue to its answer.
type command struct {
	room   uuid.UUID
	draft  domain.Draft // a message,
	create bool         // or with create a room called name
	name   string

	taken bool // under queue.mu: it is in a batch, or was answered
	done  chan result
}

// result is the end of a command. Of the three ends of a write stored is a nil err, the
// others are errNotStored and errUnknown; all else are answers that appended nothing.
type result struct {
	message   domain.Message
	info      domain.ChatRoomInfo
	duplicate bool
	err       error
}

func newCommand(room uuid.UUID) *command {
	return &command{room: room, done: make(chan result, 1)}
}

func (c *command) answer(r result) { c.done <- r }

// size is about what c holds in memory and will hold in a batch.
func (c *command) size() int {
	return recordOverhead + len(c.draft.User) + len(c.draft.ClientID) + len(c.draft.Text) + len(c.name)
}

// sameWrite says whether both ask for one and the same record.
func (c *command) sameWrite(o *command) bool {
	return c.room == o.room && c.create == o.create && c.draft == o.draft && c.name == o.name
}

// queue holds the commands that wait for the next batch of a shard's writer.
type queue struct {
	mu      sync.Mutex
	waiting []*command
	bytes   int
	closed  bool
	wake    chan struct{}

	maxCommands, maxBytes int
}

func newQueue(maxCommands, maxBytes int) *queue {
	return &queue{wake: make(chan struct{}, 1), maxCommands: maxCommands, maxBytes: maxBytes}
}

// offer puts c at the end. It answers errNotStored after close, and *domain.OverloadedError when full.
func (q *queue) offer(c *command) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errNotStored
	}
	if len(q.waiting) >= q.maxCommands || q.bytes+c.size() > q.maxBytes {
		return &domain.OverloadedError{Resource: "the shard's write queue is full", RetryAfter: 200 * time.Millisecond}
	}
	q.waiting = append(q.waiting, c)
	q.bytes += c.size()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

// withdraw takes c out for a request that gives up. true: it was not in a batch yet and never will be.
func (q *queue) withdraw(c *command) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.taken {
		return false
	}
	for i, o := range q.waiting {
		if o == c {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			q.bytes -= c.size()
			break
		}
	}
	c.taken = true
	return true
}

// take waits for commands and returns those that make up the next batch: at least one unless ctx ends or the
// queue is closed.
func (q *queue) take(ctx context.Context, into []*command, maxRecords, maxBytes int) []*command {
	for {
		if ctx.Err() != nil {
			return nil
		}
		q.mu.Lock()
		n, bytes := 0, 0
		for n < len(q.waiting) && n < maxRecords {
			if bytes += q.waiting[n].size(); bytes > maxBytes && n > 0 {
				break
			}
			n++
		}
		for _, c := range q.waiting[:n] {
			c.taken = true
			q.bytes -= c.size()
			into = append(into, c)
		}
		rest := copy(q.waiting, q.waiting[n:])
		clear(q.waiting[rest:])
		q.waiting = q.waiting[:rest]
		closed := q.closed
		q.mu.Unlock()
		if n > 0 || closed {
			return into
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// putBack returns commands to the front: their records are void, or another command has to be stored first.
// The bounds do not apply: they were in the queue before. It reports false after close: answer them then.
func (q *queue) putBack(cs []*command) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	if len(cs) == 0 {
		return true
	}
	for _, c := range cs {
		c.taken = false
		q.bytes += c.size()
	}
	q.waiting = append(append(make([]*command, 0, len(cs)+len(q.waiting)), cs...), q.waiting...)
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// refuse takes everything that waits, for the caller to answer; with shut, nothing comes in any more.
func (q *queue) refuse(shut bool) []*command {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = q.closed || shut
	cs := q.waiting
	for _, c := range cs {
		c.taken = true
	}
	q.waiting, q.bytes = nil, 0
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return cs
}
