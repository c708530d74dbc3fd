package ws

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/auth"
)

// init is connection_init: the one chance to say who one is.
func (c *conn) init(m message) {
	if c.inited {
		c.close(closeTooManyRequests, reasonTooManyInits)
		return
	}
	c.inited = true
	c.stopTimer(0)
	viewer, expiry, err := c.authenticate(c.header, bytes.Clone(m.payload))
	c.header = nil
	switch {
	case err != nil:
		c.close(closeForbidden, reasonForbidden)
		return
	case expiry.IsZero():
	case !time.Now().Before(expiry):
		c.close(closeForbidden, reasonExpired)
		return
	default:
		c.setTimer(1, time.Until(expiry), closeForbidden, reasonExpired)
	}
	c.viewer, c.ctx = viewer, auth.WithViewer(c.ctx, viewer)
	c.acked = true
	c.send(reply{Type: typeAck})
}

func (c *conn) authenticate(header http.Header, init json.RawMessage) (string, time.Time, error) {
	ctx, cancel := context.WithTimeout(c.ctx, c.t.cfg.ReadTimeout)
	defer cancel()
	return c.t.cfg.Authenticate(ctx, header, init)
}

// subscribe begins an operation: queries and mutations come this way too. It is executed on a goroutine of
// its own, so that the reader's stack stays small and a client's complete is seen at once.
func (c *conn) subscribe(m message) {
	if !c.acked {
		c.close(closeUnauthorized, reasonUnauthorized)
		return
	}
	release, ok := c.t.cfg.Operations.Acquire(c.from)
	if !ok {
		c.send(errorReply(m.id, overloaded()))
		return
	}
	o := newOperation(c, m.id, release)
	c.mu.Lock()
	_, exists := c.ops[m.id]
	full := c.active >= c.t.cfg.MaxOperations
	begin := !exists && !full && !c.closing && !c.draining
	if begin {
		if c.ops == nil {
			c.ops = map[string]*operation{}
		}
		c.ops[m.id] = o
		c.active++
		c.running.Add(1)
	}
	c.mu.Unlock()
	if !begin {
		o.sub.Stop()
		release()
	}
	switch {
	case exists:
		c.close(closeSubscriberExists, reasonExists(m.id))
	case full:
		c.close(closeTooManyRequests, reasonTooManyOperations)
	case begin:
		go func() {
			defer c.running.Done()
			o.run(m.params)
		}()
	}
}

func overloaded() gqlerror.List {
	return gqlerror.List{{
		Message:    "Too many operations at once. Nothing was executed. Try again in 1000 ms.",
		Extensions: map[string]any{"code": graph.CodeOverloaded, "retryAfterMs": 1000},
	}}
}

func (c *conn) find(id string) *operation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ops[id]
}

// take ends an operation's claim to its id. False: somebody else has done so.
func (c *conn) take(o *operation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ops[o.id] != o {
		return false
	}
	delete(c.ops, o.id)
	o.gone.Store(true)
	return true
}

// beginQuery makes a shutdown wait for o. False: it has come too late.
func (c *conn) beginQuery(o *operation) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.draining || c.ops[o.id] != o {
		return false
	}
	o.query = true
	c.queries++
	return true
}

// answered: the last message of o is out, or will never be.
func (c *conn) answered(o *operation) {
	c.mu.Lock()
	if o.query {
		o.query = false
		c.queries--
	}
	ready := c.draining && c.queries == 0
	c.mu.Unlock()
	if ready {
		c.close(closeGoingAway, reasonGoingAway)
	}
}

func (c *conn) operationOver() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active--
}
