package fanout

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph/stream"
)

// Subscription is one operation of one client.
type Subscription struct {
	hub       *Hub
	sink      Sink
	ctx       context.Context // ends with Stop; from dispatch on it carries the operation, as gqlgen wants it
	cancel    context.CancelFunc
	responses graphql.ResponseHandler
	fault     func(context.Context) *graphql.Response // what to answer after a panic

	gone atomic.Bool // stopped, ended or failed: nothing more is sent

	// The rest is for subscriptions that follow a feed.

	stream *stream.Stream
	lane   *lane         // under Hub.mu, set once
	joined domain.Serial // the feed's tip when it came
	done   func(error)   // s.wrote, made once

	// busy says who owns the fields below and the stream: while it is set, the one who does a slow write or
	// catches up; else the lane's goroutine, which is the only one to set it.
	busy  atomic.Bool
	pos   domain.Serial
	first bool // the first event is due even when it is empty
	last  bool // the event under way is the last one
}

// Stop ends the operation from the client's side: nothing more is sent, and Complete is not called. It may
// be called at any time and does not wait for an execution.
func (s *Subscription) Stop() { s.leave() }

// leave is true for the one call that ended it.
func (s *Subscription) leave() bool {
	if s.gone.Swap(true) {
		return false
	}
	s.cancel()
	s.hub.leave(s)
	return true
}

// complete: nothing more will come.
func (s *Subscription) complete() {
	if s.leave() {
		s.sink.Complete()
	}
}

// fail: the client cannot be reached.
func (s *Subscription) fail(err error) {
	if s.leave() {
		s.hub.cfg.Observer.Cut()
	}
	s.sink.Fail(err)
}

// dispatch starts the operation; a resolver that follows a feed registers now. false: it panicked.
func (s *Subscription) dispatch(ctx context.Context, r Request) (ok bool) {
	s.fault = func(ctx context.Context) *graphql.Response {
		return r.Exec.DispatchError(ctx, gqlerror.List{{Message: "internal system error"}})
	}
	defer func() {
		if v := recover(); v != nil {
			s.ctx = graphql.WithOperationContext(ctx, r.Operation)
			s.respondWith(s.recovered(v))
		}
	}()
	s.responses, s.ctx = r.Exec.DispatchOperation(ctx, r.Operation)
	return true
}

// runAlone runs whatever does not follow a feed, on the caller's goroutine.
func (s *Subscription) runAlone() {
	for {
		e := s.next()
		if e.Payload == nil {
			break
		}
		if !s.send(&Builder{}, e) {
			return
		}
	}
	s.complete()
}

func (s *Subscription) respondWith(e *entry) {
	if s.send(&Builder{}, e) {
		s.complete()
	}
}

// send waits for the client. false: it is gone.
func (s *Subscription) send(b *Builder, e *entry) bool {
	if s.gone.Load() {
		return false
	}
	if err := s.sink.Send(s.sink.Frame(b, &e.Event)); err != nil {
		s.fail(err)
		return false
	}
	return true
}

// execute reads and encodes the event behind s.pos. nil: s was stopped meanwhile.
func (s *Subscription) execute(upTo domain.Serial) *entry {
	tip := s.stream.Feed().Tip() // before the read, which may find more
	to, ok := s.stream.Push(s.ctx, s.pos, upTo)
	e := s.next()
	if s.gone.Load() {
		return nil // what came out may be half of it
	}
	e.from, e.to, e.atTip = s.pos, to, to >= tip
	e.Cursor = s.stream.Cursor()
	e.last = e.last || !ok || e.private && s.stream.Broken(false) != nil
	e.private = e.private || e.last
	s.hub.cfg.Observer.Executed()
	return e
}

// final makes the last event of a stream whose feed has ended.
func (s *Subscription) final(err error) *entry {
	s.stream.End(err)
	e := s.next()
	e.from, e.to, e.last, e.private = s.pos, s.pos, true, true
	return e
}

// next asks the executor for one response. Without a payload it was the end.
func (s *Subscription) next() (e *entry) {
	defer func() {
		if v := recover(); v != nil {
			e = s.recovered(v)
		}
	}()
	return encode(s.responses(s.ctx))
}

// recovered makes the last event of an operation that panicked.
func (s *Subscription) recovered(v any) *entry {
	text := fmt.Sprintf("%T", v) // an error's text may hold what a user wrote
	if r, ok := v.(interface{ RuntimeError() }); ok {
		text = fmt.Sprint(r)
	}
	s.hub.cfg.Log.Error("panic in an execution", "panic", text, "stack", string(debug.Stack()))
	e := encode(s.fault(s.ctx))
	e.last = true
	return e
}

// encode makes the bytes that gqlgen's own transports would send, in a buffer of their own: gqlgen uses that
// of Data again.
func encode(r *graphql.Response) *entry {
	switch {
	case r == nil:
		return &entry{private: true, last: true}
	case len(r.Errors) > 0 || len(r.Extensions) > 0 || r.HasNext != nil || r.Label != "" || len(r.Path) > 0 || r.Data == nil:
		b, err := json.Marshal(r)
		if err != nil { // extensions of an error that are no JSON
			b = []byte(`{"errors":[{"message":"internal system error","extensions":{"code":"INTERNAL"}}],"data":null}`)
		}
		return &entry{Event: Event{Payload: b}, private: true}
	}
	const head, tail = `{"data":`, `}`
	var buf bytes.Buffer
	buf.Grow(len(head) + len(r.Data) + len(tail))
	buf.WriteString(head)
	json.HTMLEscape(&buf, r.Data) // as json.Marshal does it with a RawMessage
	buf.WriteString(tail)
	return &entry{Event: Event{Payload: buf.Bytes()}}
}
