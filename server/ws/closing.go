package ws

import (
	"time"

	"github.com/chathome/chathome/server/fanout"
)

// close ends the connection with a code. It does not wait: the reader goes on, throwing everything away,
// until the client has answered or CloseTimeout is over, and ends the rest.
func (c *conn) close(code uint16, reason string) {
	c.mu.Lock()
	if c.closing || c.wire == nil {
		c.mu.Unlock()
		return
	}
	c.closing = true
	if c.how == endUnknown {
		c.how = EndServer
	}
	ops := c.ops
	c.ops = nil
	_ = c.wire.SetReadDeadline(time.Now().Add(c.t.cfg.CloseTimeout))
	c.mu.Unlock()
	for _, o := range ops {
		o.gone.Store(true)
		o.stop()
	}
	_, _ = c.wire.trySend(fanout.NewFrame(closeFrame(code, reason)), nil, func(error) {})
}

// cut ends the connection at once: a frame is torn, or the peer is dead.
func (c *conn) cut(how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.how == endUnknown && how != endUnknown {
		c.how = how
	}
	if c.wire != nil {
		c.wire.Cut()
	}
}

func (c *conn) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// readBy sets how long the reader waits; 0: for ever. A connection that is being closed keeps its deadline.
func (c *conn) readBy(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return
	}
	var at time.Time
	if d > 0 {
		at = time.Now().Add(d)
	}
	_ = c.wire.SetReadDeadline(at)
}

// setTimer closes the connection after d, unless it is stopped.
func (c *conn) setTimer(i int, d time.Duration, code uint16, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.timers[i] = time.AfterFunc(d, func() { c.close(code, reason) })
	}
}

func (c *conn) stopTimer(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timers[i] != nil {
		c.timers[i].Stop()
		c.timers[i] = nil
	}
}

// drain closes the connection for a shutdown: when its queries and mutations have been answered.
func (c *conn) drain() {
	c.mu.Lock()
	c.draining = true
	ready := c.queries == 0
	c.mu.Unlock()
	if ready {
		c.close(closeGoingAway, reasonGoingAway)
	}
}
