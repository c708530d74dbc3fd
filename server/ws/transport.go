package ws

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/coder/websocket"

	"github.com/chathome/chathome/server/fanout"
)

// Subprotocol is the only one that is offered. The legacy graphql-ws is not.
const Subprotocol = "graphql-transport-ws"

// Transport implements gqlgen's graphql.Transport for WebSockets.
type Transport struct {
	cfg    Config
	layout *fanout.Layout
	pinger pinger
	hello  *fanout.Frame // a ping
	texts  sync.Pool     // *[]byte: messages being read

	mu       sync.Mutex
	conns    map[*conn]struct{}
	draining bool
	empty    chan struct{} // closed when the last connection has gone while draining
	refusing atomic.Int64  // connections that are let in only to be told why not
}

var _ graphql.Transport = (*Transport)(nil)

// maxRefusing bounds the sockets that wait for the answer to a refusal; others are refused by HTTP.
const maxRefusing = 256

// New returns a transport that is ready. Shutdown ends it.
func New(cfg Config) (*Transport, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Transport{cfg: cfg.withDefaults(), layout: newNextLayout(), conns: map[*conn]struct{}{}, empty: make(chan struct{})}
	t.hello = fanout.NewFrame(control(opPing, nil))
	t.pinger.init(t.cfg.PingInterval)
	t.texts.New = func() any { b := make([]byte, 0, 2048); return &b }
	return t, nil
}

// Supports implements graphql.Transport.
func (t *Transport) Supports(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// Do implements graphql.Transport. It returns as soon as the upgrade is done: the connection runs on a
// goroutine of its own, so that net/http's stack and buffers are free while it is idle.
func (t *Transport) Do(w http.ResponseWriter, r *http.Request, exec graphql.GraphExecutor) {
	if !t.cfg.CheckOrigin(r) {
		t.cfg.Observer.Refused(RefusedFrom)
		http.Error(w, "this web page's origin may not open sockets here", http.StatusForbidden)
		return
	}
	var refusal *closing
	from := t.cfg.Proxies.Client(r)
	release, ok := t.cfg.Limiter.Acquire(from)
	if !ok {
		refusal = &closing{closeTryLater, reasonTooManyHere}
		t.cfg.Observer.Refused(RefusedHere)
		release = func() { t.refusing.Add(-1) }
		if t.refusing.Add(1) > maxRefusing {
			release()
			refuseByHTTP(w)
			return
		}
	}
	c := newConn(t, exec, r.Header, from, release)
	if !t.register(c) {
		c.cancel()
		release()
		t.cfg.Observer.Refused(RefusedStop)
		refuseByHTTP(w)
		return
	}
	h := &hijacker{ResponseWriter: w, make: c.newWire}
	ws, err := websocket.Accept(h, r, &websocket.AcceptOptions{
		Subprotocols:       []string{Subprotocol},
		InsecureSkipVerify: true, // CheckOrigin has been asked
		OnPingReceived:     c.pinged,
		OnPongReceived:     c.ponged,
	})
	if err != nil { // it has answered
		if h.wire != nil {
			h.wire.Cut()
		}
		t.cfg.Observer.Refused(RefusedHow)
		t.forget(c)
		return
	}
	ws.SetReadLimit(int64(t.cfg.MaxMessage))
	if refusal == nil && ws.Subprotocol() == "" {
		t.cfg.Observer.Refused(RefusedHow)
		refusal = &closing{closeBadSubprotocol, reasonBadSubprotocol}
	}
	go c.run(ws, h.wire, refusal)
}

func refuseByHTTP(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "no more connections here right now", http.StatusServiceUnavailable)
}

func (t *Transport) register(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.draining {
		return false
	}
	t.conns[c] = struct{}{}
	return true
}

// forget is the end of a connection.
func (t *Transport) forget(c *conn) {
	c.cancel()
	c.release()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
	if t.draining && len(t.conns) == 0 {
		close(t.empty)
	}
}

// Connections is how many there are.
func (t *Transport) Connections() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.conns)
}

var errShutdown = errors.New("websocket shutdown")

// Shutdown refuses new connections and closes those that are there with a code after which clients come back,
// elsewhere: 1001. Queries and mutations under way are answered first. When ctx ends, what is left is
// cut, and the context's error returned. Once; later calls only wait.
func (t *Transport) Shutdown(ctx context.Context) error {
	t.mu.Lock()
	first := !t.draining
	t.draining = true
	conns := make([]*conn, 0, len(t.conns))
	for c := range t.conns {
		conns = append(conns, c)
	}
	if first && len(conns) == 0 {
		close(t.empty)
	}
	t.mu.Unlock()
	for _, c := range conns {
		c.drain()
	}
	select {
	case <-t.empty:
		return nil
	case <-ctx.Done():
	}
	for _, c := range conns {
		c.cut(EndServer)
	}
	<-t.empty
	return errors.Join(errShutdown, context.Cause(ctx))
}
