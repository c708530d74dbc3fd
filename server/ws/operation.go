package ws

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/server/fanout"
)

// operation is one query, mutation or subscription of a connection: the fanout.Sink with its id around each
// event.
type operation struct {
	c      *conn
	id     string
	prefix []byte // {"id":…,"type":"next","payload":
	sub    *fanout.Subscription
	gone   atomic.Bool // completed by either side: no event may follow
	query  bool        // a query or a mutation: a shutdown waits for it. Under conn.mu

	single bool   // a query or a mutation, whose one answer is followed by complete. Set by run
	answer []byte // of one: the frame that waits for complete

	// parts is how many of two things are still to happen before it stops to count as one of the
	// connection's operations: run returns, and the last message to the client is out. Else a client that
	// never reads could begin and abandon any number of them.
	parts   atomic.Int32
	release func() // of the limiter, then
}

func newOperation(c *conn, id string, release func()) *operation {
	o := &operation{c: c, id: id, prefix: nextPrefix(id), release: release}
	o.sub = c.t.cfg.Hub.NewSubscription(c.ctx, o)
	o.parts.Store(2)
	return o
}

// run executes the operation; a subscription goes on when it has returned.
func (o *operation) run(params *graphql.RawParams) {
	defer o.partDone()
	defer func() {
		if v := recover(); v != nil {
			o.c.t.cfg.Log.Error("panic before an execution", "panic", fmt.Sprintf("%T", v), "stack", string(debug.Stack()))
			o.refuse(gqlerror.List{{Message: "internal system error", Extensions: map[string]any{"code": "INTERNAL"}}})
		}
	}()
	exec, ctx := o.c.exec, graphql.StartOperationTrace(o.c.ctx)
	op, errs := exec.CreateOperationContext(ctx, params)
	if len(errs) > 0 {
		o.c.t.cfg.Observer.Operation("invalid")
		o.refuse(exec.DispatchError(graphql.WithOperationContext(ctx, op), errs).Errors)
		return
	}
	if !o.weigh(fanout.Weight(op) - 1) {
		o.refuse(overloaded())
		return
	}
	o.c.t.cfg.Observer.Operation(string(op.Operation.Operation))
	if op.Operation.Operation != ast.Subscription && !o.c.beginQuery(o) {
		return // the connection is closing: nothing is begun any more
	}
	o.single = op.Operation.Operation != ast.Subscription
	o.sub.Run(fanout.Request{Exec: exec, Operation: op, Viewer: o.c.viewer, Sink: o})
}

// weigh takes what the operation counts besides the one that it was let in for.
func (o *operation) weigh(more int) bool {
	if more == 0 {
		return true
	}
	release, ok := o.c.t.cfg.Operations.AcquireN(o.c.from, more)
	if ok {
		one := o.release
		o.release = func() { one(); release() }
	}
	return ok
}

// refuse answers an operation that cannot be executed. No complete follows.
func (o *operation) refuse(list gqlerror.List) {
	o.finish(errorReply(o.id, list))
}

// finish sends the last message. It does not wait for the client.
func (o *operation) finish(r reply) {
	if !o.c.take(o) {
		return // the client has completed it first
	}
	o.sub.Stop()
	o.c.post(r.frame(), func(error) {
		o.c.answered(o)
		o.partDone()
	})
}

// stop ends the operation without a word: the client has completed it, or is gone. The caller has taken it.
func (o *operation) stop() {
	o.sub.Stop()
	o.c.answered(o)
	o.partDone()
}

func (o *operation) partDone() {
	if o.parts.Add(-1) == 0 {
		o.release()
		o.c.operationOver()
	}
}

// Frame implements fanout.Sink.
func (o *operation) Frame(b *fanout.Builder, e *fanout.Event) *fanout.Frame {
	return b.Build(o.c.t.layout, o.prefix, e)
}

// TrySend implements fanout.Sink.
func (o *operation) TrySend(f *fanout.Frame, done func(error)) (pending bool, err error) {
	return o.c.wire.trySend(f, &o.gone, done)
}

// Send implements fanout.Sink. The answer to a query or a mutation waits for complete, which follows at once: one write
// for both, and one packet. A large one is not worth a copy.
func (o *operation) Send(f *fanout.Frame) error {
	if o.single && o.answer == nil && len(f.Bytes) <= maxKeptAnswer {
		o.answer = append(make([]byte, 0, len(f.Bytes)+len(o.prefix)+64), f.Bytes...)
		return nil
	}
	if err := o.sendAnswer(); err != nil {
		return err
	}
	return o.c.wire.send(f.Bytes, &o.gone)
}

const maxKeptAnswer = 16 << 10

// sendAnswer sends an answer that something else than complete follows.
func (o *operation) sendAnswer() error {
	if o.answer == nil {
		return nil
	}
	answer := o.answer
	o.answer, o.single = nil, false
	return o.c.wire.send(answer, &o.gone)
}

// Complete implements fanout.Sink. The id is free before the client can know it.
func (o *operation) Complete() {
	last := reply{ID: o.id, Type: typeComplete}
	if o.answer == nil {
		o.finish(last)
		return
	}
	// Send would have waited here too, on this goroutine of the operation's own.
	taken, err := o.c.wire.sendLast(append(o.answer, last.frame()...), func() bool { return o.c.take(o) })
	if err != nil {
		o.c.cut(endUnknown)
	}
	if taken {
		o.stop()
	}
}

// Fail implements fanout.Sink.
func (o *operation) Fail(error) {
	o.c.cut(endUnknown)
}

var _ fanout.Sink = (*operation)(nil)
