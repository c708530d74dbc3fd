// Package stream is the seam between a subscription's resolver and the transport that serves it.
//
// A subscription is a position in a feed plus a way to read one batch behind any position: Follow says both.
// Who turns that into events depends on the transport:
//
//   - A sharing transport (server/fanout) put a Stream into the context with Share. Follow only registers;
//     the transport watches the feed and calls Push for one batch, then asks the executor for one response,
//     which is that batch. It may send the bytes to everybody who stands at the same position.
//   - Under any other transport Follow starts a goroutine that does the same for this one subscriber.
//
// Either way nothing is queued: a slow reader lags and gets larger batches. And either way the end is the
// same: when the feed ends, a read fails or panics, the executor's next response is one last event with the
// error, made by graph.StreamEnd, and then nil.
package stream

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/chathome/chathome/domain"
)

// Read reads one batch of a feed behind from and says where it ends.
//
// upTo 0 is the live mode: up to the feed's tip in one batch, so that a group commit is one event. Another
// upTo is the replay mode: not beyond upTo, and such that readers who come from different positions soon
// stand at the same ones. Either is bounded in count and bytes. to > from whenever there is anything behind
// from (up to upTo); to == from otherwise, and the batch is empty then. Batches from the same position with
// the same bound are equal while the feed stands, except in what they say of the tip.
type Read[B any] func(ctx context.Context, from, upTo domain.Serial) (batch B, to domain.Serial, err error)

// PanicError is the end of a stream whose read panicked.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("read a batch: panic: %v", e.Value) }

// Stream is one subscription as its transport sees it. Methods other than Err are called by one goroutine
// at a time.
type Stream struct {
	shared bool

	// Set once by Follow, before the executor's dispatch returns.
	feed  domain.Feed
	start domain.Serial
	push  func(ctx context.Context, from, upTo domain.Serial) (domain.Serial, error)
	close func()

	cursor string // behind the batch of the last Push

	mu  sync.Mutex
	err error // why it ended
}

type contextKey struct{}

// Share is called by a sharing transport before it dispatches an operation. Afterwards Following says
// whether the operation is a subscription that stands.
func Share(ctx context.Context) (context.Context, *Stream) {
	s := &Stream{shared: true}
	return context.WithValue(ctx, contextKey{}, s), s
}

// Attach returns the operation's stream, a new one that is not shared if there is none yet. It is for
// graph.StreamEnd; transports use Share.
func Attach(ctx context.Context) (context.Context, *Stream) {
	if s, ok := ctx.Value(contextKey{}).(*Stream); ok {
		return ctx, s
	}
	s := &Stream{}
	return context.WithValue(ctx, contextKey{}, s), s
}

// Following says whether a resolver follows a feed. False: a query, a mutation, or a start that was refused;
// ask the executor for responses until nil, without Push.
func (s *Stream) Following() bool { return s.feed != nil }

// Feed is what is followed: one and the same value for all who read the same stream, so it can key a map.
// Check its Err before bytes that somebody else executed leave.
func (s *Stream) Feed() domain.Feed { return s.feed }

// Start is the position to start behind. The first event is due at once, even when it is empty.
func (s *Stream) Start() domain.Serial { return s.start }

// Push reads one batch behind from (see Read for upTo) and leaves it for the executor's next response; to is
// where it ends. One Push, one response, in turn. ok is false when the stream has ended: the next response
// is its last event, then comes nil. Push never panics.
//
// The batch may also be refused later, when the lease ends while the executor works: then the response has
// errors and no data. Never share a response with errors.
func (s *Stream) Push(ctx context.Context, from, upTo domain.Serial) (to domain.Serial, ok bool) {
	if s.Err() != nil {
		return from, false
	}
	err := s.feed.Err()
	if err == nil {
		to, err = s.push(ctx, from, upTo)
	}
	if err != nil {
		s.End(err)
		return from, false
	}
	return to, true
}

// Resumable is a batch that knows the cursor behind it.
type Resumable interface{ EndCursor() string }

// Cursor is the cursor behind the batch of the last Push: a safe "after" for a client that has it. Empty
// where batches are not Resumable.
func (s *Stream) Cursor() string { return s.cursor }

// End ends a shared stream: the executor's next response is one last event with err, then comes nil. Only the
// first call counts. A transport calls it with Feed().Err() when it finds the feed ended.
func (s *Stream) End(err error) {
	s.setErr(err)
	if s.close != nil {
		s.close()
	}
}

// Err says why the stream ended, nil while it stands.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Broken says why nothing may leave any more: the feed ended (its lease included) or, when there is no event
// left to send, why the stream ended. To be asked right before a response leaves.
func (s *Stream) Broken(drained bool) error {
	if s.feed != nil {
		if err := s.feed.Err(); err != nil {
			return err
		}
	}
	if drained {
		return s.Err()
	}
	return nil
}

func (s *Stream) setErr(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// Follow is the resolver's side. The channel ends when ctx does, when the feed ends, or when read fails.
func Follow[B any](ctx context.Context, feed domain.Feed, start domain.Serial, read Read[B]) <-chan B {
	_, s := Attach(ctx) // without graph.StreamEnd the reason of the end goes nowhere
	s.feed, s.start = feed, start
	if s.shared {
		return register(s, read)
	}
	c := make(chan B)
	go func() {
		defer close(c)
		if err := follow(ctx, feed, start, read, c); err != nil {
			s.setErr(err)
		}
	}()
	return c
}

// register leaves everything to the transport. The channel holds the one batch between Push and response.
func register[B any](s *Stream, read Read[B]) <-chan B {
	c := make(chan B, 1)
	s.close = sync.OnceFunc(func() { close(c) })
	s.push = func(ctx context.Context, from, upTo domain.Serial) (domain.Serial, error) {
		b, to, err := safely(ctx, read, from, upTo)
		if err != nil {
			return from, err
		}
		s.cursor = ""
		if r, ok := any(b).(Resumable); ok {
			s.cursor = r.EndCursor()
		}
		c <- b
		return to, nil
	}
	return c
}

// follow makes events for one subscriber until ctx ends (nil), or the feed ends or a read fails (the reason).
func follow[B any](ctx context.Context, feed domain.Feed, pos domain.Serial, read Read[B], out chan<- B) error {
	wake := make(chan struct{}, 1)
	defer feed.Watch(func() {
		select {
		case wake <- struct{}{}:
		default: // one wake-up is as good as many: the position says what is new
		}
	})()
	for due := true; ; due = feed.Tip() > pos {
		if err := feed.Err(); err != nil {
			return err
		}
		if !due {
			select {
			case <-wake:
				continue
			case <-ctx.Done():
				return nil
			}
		}
		b, to, err := safely(ctx, read, pos, 0)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		select {
		case out <- b:
			pos = to
		case <-ctx.Done():
			return nil
		}
	}
}

// safely turns a panic into an error: nobody above this goroutine would catch it.
func safely[B any](ctx context.Context, read Read[B], from, upTo domain.Serial) (b B, to domain.Serial, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return read(ctx, from, upTo)
}
