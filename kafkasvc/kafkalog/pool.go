package kafkalog

import (
	"context"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// idleLimit is how long a connection may rest and still be trusted. Brokers, and what stands between, drop idle
// connections without a word; a produce request on such a one would end unknown for nothing.
const idleLimit = 30 * time.Second

// pool keeps idle connections by broker address. The last one used is used first, so that the others grow old.
type pool struct {
	mu   sync.Mutex
	idle map[string][]*conn
}

// take returns an idle connection, or nil.
func (p *pool) take(addr string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	l := p.idle[addr]
	if len(l) == 0 {
		return nil
	}
	k := l[len(l)-1]
	p.idle[addr] = l[:len(l)-1]
	return k
}

func (p *pool) put(k *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expire()
	if p.idle == nil {
		p.idle = make(map[string][]*conn)
	}
	k.idleSince = time.Now()
	p.idle[k.addr] = append(p.idle[k.addr], k)
}

// drop forgets the connections to a broker of which one failed: the others fail as well.
func (p *pool) drop(addr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.idle[addr] {
		k.close()
	}
	delete(p.idle, addr)
}

func (p *pool) expire() {
	now := time.Now()
	for addr, l := range p.idle {
		n := 0
		for n < len(l) && now.Sub(l[n].idleSince) > idleLimit {
			l[n].close()
			n++
		}
		if n == len(l) {
			delete(p.idle, addr)
		} else if n > 0 {
			p.idle[addr] = append(l[:0], l[n:]...)
		}
	}
}

// connTo returns an idle connection to a broker or a new one.
func (c *Cluster) connTo(ctx context.Context, addr string) (*conn, error) {
	if k := c.pool.take(addr); k != nil {
		return k, nil
	}
	return c.dial(ctx, addr)
}

// with runs fn over a connection. The connection survives if fn returns nil and ctx did not end; fn keeps a broker's
// error codes to itself, since they leave the connection in step.
func (c *Cluster) with(ctx context.Context, k *conn, fn func(k *conn) error) error {
	stop := k.guard(ctx)
	err := fn(k)
	alive := stop()
	if err == nil && alive {
		c.pool.put(k)
		return nil
	}
	k.close()
	if err == nil {
		return nil // the answer came before ctx ended
	}
	c.pool.drop(k.addr)
	switch {
	case c.ctx.Err() != nil:
		err = ErrClosed
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return c.brokerError(k.addr, StageRequest, err)
}

// ask sends a request that may be repeated, in kafka-go's encoding, bounded by RPCTimeout. A resting connection
// that turns out dead is replaced once.
func (c *Cluster) ask(ctx context.Context, addr string, m protocol.Message) (res protocol.Message, err error) {
	err = c.repeatable(ctx, addr, func(k *conn) (err error) {
		res, err = k.roundTrip(m)
		return err
	})
	return res, err
}

func (c *Cluster) repeatable(ctx context.Context, addr string, fn func(k *conn) error) error {
	if k := c.pool.take(addr); k != nil {
		ctx, cancel := context.WithTimeout(ctx, c.cfg.RPCTimeout)
		err := c.with(ctx, k, fn)
		expired := ctx.Err() != nil
		cancel()
		if err == nil || expired {
			return err
		}
	}
	k, err := c.dial(ctx, addr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RPCTimeout)
	defer cancel()
	return c.with(ctx, k, fn)
}
