package membership

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// conns are the connections of one kafka-go group. kafka-go has no way to give up a request, and no deadline
// on some of them: closing the connection below it is the one that works.
type conns struct {
	base  func(ctx context.Context, network, address string) (net.Conn, error)
	limit time.Duration // of an operation that kafka-go set no deadline for
	park  time.Duration // of a JoinGroup or SyncGroup

	ctx    context.Context // ends with cut: dials in progress
	cancel context.CancelFunc

	mu   sync.Mutex
	open map[*conn]struct{}
}

func newConns(base func(context.Context, string, string) (net.Conn, error), times Timeouts) *conns {
	c := &conns{base: base, limit: times.RPC, park: times.RPC + 3*times.Rebalance, open: make(map[*conn]struct{})}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

var errCut = errors.New("leaving the group: no more connections")

func (c *conns) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(errCut) })()
	raw, err := c.base(ctx, network, address)
	if err != nil {
		return nil, err
	}
	wrapped := &conn{Conn: raw, all: c}
	// TLS and SASL handshakes set none: a silent broker would hold them for ever.
	if err := raw.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return nil, errors.Join(errCut, raw.Close())
	}
	c.open[wrapped] = struct{}{}
	return wrapped, nil
}

// cut closes every connection and refuses new ones. It may be called again.
func (c *conns) cut() {
	c.cancel()
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	for conn := range open {
		_ = conn.Conn.Close() // what it was doing fails, that is the point
	}
}

type conn struct {
	net.Conn
	all *conns
}

func (c *conn) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) SetDeadline(t time.Time) error      { return c.Conn.SetDeadline(c.bounded(t)) }
func (c *conn) SetReadDeadline(t time.Time) error  { return c.Conn.SetReadDeadline(c.bounded(t)) }
func (c *conn) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(c.bounded(t)) }

// bounded gives every operation a deadline, and those that wait for other members a later one than kafka-go does.
//
// kafka-go gives up a JoinGroup one rpc timeout after our own rebalance timeout. But a coordinator waits for the
// longest rebalance timeout of all members, and the embedded broker begins anew with each member that joins. Who
// gives up leaves a ghost behind and comes back as a new member, for whom everybody has to wait again: several
// instances can keep each other from ever finishing. The price is that a coordinator which dies without a word
// in the middle of a rebalance is missed later.
func (c *conn) bounded(t time.Time) time.Time {
	if t.IsZero() {
		return time.Now().Add(c.all.limit)
	}
	// Other requests get one rpc timeout; these get one more than the session or rebalance timeout, which are
	// both longer than one.
	if time.Until(t) > c.all.limit*3/2 {
		if later := time.Now().Add(c.all.park); later.After(t) {
			return later
		}
	}
	return t
}
