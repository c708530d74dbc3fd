package ws

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"

	"github.com/chathome/chathome/server/fanout"
)

// conn is one connection. Its reader, run, is the one goroutine that it has while idle; it also ends
// everything.
type conn struct {
	t       *Transport
	exec    graphql.GraphExecutor
	ctx     context.Context // ends with the connection; carries the viewer once there is one
	cancel  context.CancelFunc
	from    netip.Addr  // the client's; invalid where there are none
	release func()      // of the limiter
	header  http.Header // until connection_init
	slot    int         // of the pinger
	heard   atomic.Bool // the peer has shown a sign of life since the last ping

	// The reader's own.
	ws     *websocket.Conn
	inited bool
	acked  bool
	viewer string

	running sync.WaitGroup // operations being executed

	mu       sync.Mutex
	wire     *wire // nil until run
	ops      map[string]*operation
	active   int // operations that count, see operation.parts
	queries  int // queries and mutations that are to be answered before a shutdown closes the connection
	draining bool
	closing  bool // a close frame is on its way: what comes in is thrown away
	how      string
	timers   [2]*time.Timer // init, expiry
}

// closing says how a connection is to be closed.
type closing struct {
	code   uint16
	reason string
}

func newConn(t *Transport, exec graphql.GraphExecutor, header http.Header, from netip.Addr, release func()) *conn {
	c := &conn{t: t, exec: exec, header: header, from: from, release: release}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.heard.Store(true)
	return c
}

func (c *conn) newWire(nc net.Conn) *wire {
	return newWire(nc, c.t.cfg.WriteTimeout, c.t.cfg.SendBuffer, c.t.cfg.MaxOperations+4, &c.heard)
}

// run reads until the connection ends.
func (c *conn) run(ws *websocket.Conn, w *wire, refusal *closing) {
	c.ws = ws
	c.mu.Lock()
	c.wire = w
	draining, doomed := c.draining, c.how != endUnknown
	c.mu.Unlock()
	c.t.cfg.Observer.Opened()
	c.t.pinger.add(c)
	defer c.end()
	switch {
	case doomed:
		return
	case refusal != nil:
		c.close(refusal.code, refusal.reason)
	case draining:
		c.close(closeGoingAway, reasonGoingAway)
	default:
		c.setTimer(0, c.t.cfg.InitTimeout, closeInitTimeout, reasonInitTimeout)
	}
	for {
		kind, r, err := ws.Reader(context.Background())
		if err != nil {
			c.ended(err)
			return
		}
		c.heard.Store(true)
		if err := c.readMessage(kind, r); err != nil {
			c.ended(err)
			return
		}
	}
}

// readMessage reads one message and acts on it.
func (c *conn) readMessage(kind websocket.MessageType, r io.Reader) error {
	buf := c.t.texts.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 2*c.t.cfg.MaxMessage { // not one that grew for a message far over the limit
			*buf = (*buf)[:0]
			c.t.texts.Put(buf)
		}
	}()
	c.readBy(c.t.cfg.ReadTimeout) // one that has begun must end: silence in the middle keeps memory
	b, err := readAll((*buf)[:0], r)
	*buf = b
	c.readBy(0)
	if err != nil {
		return err
	}
	if c.isClosing() {
		return nil
	}
	// On a stack of its own: the reader's is there as long as the connection and must stay small.
	done := make(chan struct{})
	go func() {
		defer close(done)
		m, err := parse(b)
		if err != nil || kind != websocket.MessageText {
			c.close(closeBadRequest, reasonInvalid)
			return
		}
		c.handle(m)
	}()
	<-done
	return nil
}

// readAll is io.ReadAll into b. The limit is the WebSocket's.
func readAll(b []byte, r io.Reader) ([]byte, error) {
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// handle acts on one message. What it sends it waits for: a client that floods without reading makes only
// itself wait.
func (c *conn) handle(m message) {
	switch m.kind {
	case typeInit:
		c.init(m)
	case typePing:
		c.send(reply{Type: typePong, Payload: m.payload})
	case typePong:
	case typeSubscribe:
		c.subscribe(m)
	case typeComplete:
		if o := c.find(m.id); o != nil && c.take(o) {
			o.stop()
		}
	}
}

func (c *conn) send(r reply) {
	if err := c.wire.send(r.frame(), nil); err != nil {
		c.cut(endUnknown)
	}
}

// post sends a frame without waiting; done is called when it is out, or not.
func (c *conn) post(frame []byte, done func(error)) {
	pending, err := c.wire.trySend(fanout.NewFrame(frame), nil, done)
	if !pending {
		done(err)
	}
	if err != nil {
		c.cut(endUnknown)
	}
}

// pinged answers a ping of WebSocket itself. coder/websocket would give up on a slow client after 5 seconds.
func (c *conn) pinged(_ context.Context, payload []byte) bool {
	c.heard.Store(true)
	_ = c.wire.send(control(opPong, payload), nil)
	return false
}

func (c *conn) ponged(context.Context, []byte) { c.heard.Store(true) }

// ping is called once an interval by the pinger.
func (c *conn) ping() {
	if !c.heard.Swap(false) {
		c.cut(EndSilent)
		return
	}
	if !c.wire.tryPing(c.t.hello) {
		c.heard.Store(true) // it was not asked: the write under way will tell whether the client lives
	}
}

// ended notes why reading ended.
func (c *conn) ended(err error) {
	how := EndReset
	switch {
	case websocket.CloseStatus(err) != -1, errors.Is(err, io.EOF):
		how = EndClient
	case c.wire.TooSlow():
		how = EndSlow
	case c.wire.closed.Load(): // by coder/websocket: a message over the limit, a broken frame
		how = EndServer
	}
	c.mu.Lock()
	if c.how != endUnknown {
		c.mu.Unlock()
		return
	}
	c.how = how
	c.mu.Unlock()
	if how == EndServer {
		// A socket that is closed with something unread is reset, and the client may not see the code.
		_ = c.wire.SetReadDeadline(time.Now().Add(c.t.cfg.CloseTimeout))
		_, _ = io.CopyN(io.Discard, c.wire.Conn, maxDiscarded)
	}
}

// maxDiscarded bounds what is read and thrown away for a client that was told a close code.
const maxDiscarded = 1 << 20

// end is the last thing that the reader does.
func (c *conn) end() {
	c.t.pinger.remove(c)
	c.cancel()
	c.mu.Lock()
	c.closing = true
	ops := c.ops
	c.ops = nil
	for _, t := range c.timers {
		if t != nil {
			t.Stop()
		}
	}
	c.mu.Unlock()
	for _, o := range ops {
		o.gone.Store(true)
		o.stop()
	}
	_ = c.ws.CloseNow()
	c.running.Wait()
	c.mu.Lock()
	how := c.how
	c.mu.Unlock()
	c.t.cfg.Observer.Closed(how)
	c.t.forget(c)
}
