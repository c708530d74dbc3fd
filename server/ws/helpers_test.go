package ws

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql/executor"
	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/fanout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testServer is a transport behind net/http, over TCP or, in a synctest bubble, over pipes.
type testServer struct {
	t         *testing.T
	home      *domaintest.Home
	room      domain.ChatRoomInfo
	transport *Transport
	hub       *fanout.Hub
	listener  net.Listener
	http      *http.Server
	ends      ends
}

type ends struct {
	mu   sync.Mutex
	seen map[string]int
}

func (e *ends) count(what string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seen == nil {
		e.seen = map[string]int{}
	}
	e.seen[what]++
}

func (e *ends) of(what string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seen[what]
}

func (e *ends) Opened()               { e.count("opened") }
func (e *ends) Closed(how string)     { e.count(how) }
func (e *ends) Refused(why string)    { e.count("refused " + why) }
func (e *ends) Operation(kind string) { e.count(kind) }

// And of the hub.
func (e *ends) Executed()              {}
func (e *ends) CaughtUp(domain.Serial) {}
func (e *ends) Cut()                   {}
func (e *ends) Delivered(_, pending int) {
	if pending > 0 {
		e.count("pending")
	}
}

func newTestServer(t *testing.T, l net.Listener, cfg Config) *testServer {
	t.Helper()
	s := &testServer{t: t, home: domaintest.New(domaintest.Config{}), listener: l}
	s.hub = fanout.New(fanout.Config{Observer: &s.ends})
	s.room = s.home.AddRoomOn(0, "lobby")
	cfg.Hub = s.hub
	cfg.Observer = &s.ends
	cfg.Log = slog.New(slog.DiscardHandler)
	transport, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.transport = transport
	exec := executor.New(graph.New(s.home))
	graph.Configure(exec, cfg.Log)
	s.http = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !transport.Supports(r) {
			http.Error(w, "no upgrade", http.StatusBadRequest)
			return
		}
		transport.Do(w, r, exec)
	}), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go func() { _ = s.http.Serve(l) }()
	t.Cleanup(s.stop)
	return s
}

func (s *testServer) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = s.transport.Shutdown(ctx)
	_ = s.http.Close()
	if n := s.transport.Connections(); n != 0 {
		s.t.Errorf("%d connections stay", n)
	}
	if n := s.hub.Groups(); n != 0 {
		s.t.Errorf("%d groups stay", n)
	}
	if n := s.transport.cfg.Limiter.Held(); n != 0 {
		s.t.Errorf("%d places stay taken", n)
	}
}

func tcp(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// pipes is a listener for synctest: it holds no descriptor.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

func (s *testServer) connect() net.Conn {
	s.t.Helper()
	if p, ok := s.listener.(*pipes); ok {
		a, b := net.Pipe()
		p.conns <- b
		return a
	}
	c, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// client speaks raw frames, so that it can do what no library would.
type client struct {
	net.Conn
	t  *testing.T
	br *bufio.Reader
}

// dial upgrades; extra are headers. early goes out with the request, in one packet.
func (s *testServer) dial(protocol string, early []byte, extra ...string) *client {
	s.t.Helper()
	c, status, body := s.tryDial(protocol, early, extra...)
	if status != http.StatusSwitchingProtocols {
		s.t.Fatalf("upgrade: %d %s", status, body)
	}
	return c
}

func (s *testServer) tryDial(protocol string, early []byte, extra ...string) (*client, int, string) {
	s.t.Helper()
	c := &client{Conn: s.connect(), t: s.t}
	s.t.Cleanup(func() { _ = c.Close() })
	c.br = bufio.NewReader(c.Conn)
	headers := append([]string{"Host: chat.example", "Upgrade: websocket", "Connection: Upgrade",
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Version: 13"}, extra...)
	if protocol != "" {
		headers = append(headers, "Sec-WebSocket-Protocol: "+protocol)
	}
	request := "GET /graphql HTTP/1.1\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n"
	if _, err := c.Write(append([]byte(request), early...)); err != nil {
		s.t.Fatal(err)
	}
	r, err := http.ReadResponse(c.br, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if r.StatusCode == http.StatusSwitchingProtocols {
		return c, r.StatusCode, ""
	}
	b, _ := io.ReadAll(r.Body)
	_ = c.Close()
	return nil, r.StatusCode, string(b)
}

// ready is a client after connection_ack.
func (s *testServer) ready() *client {
	s.t.Helper()
	c := s.dial(Subprotocol, nil)
	c.send(`{"type":"connection_init"}`)
	c.want(`{"type":"connection_ack"}`)
	return c
}

func (c *client) send(message string) {
	c.t.Helper()
	c.frame(final|opText, []byte(message))
}

// frame writes one masked frame; first is its first byte.
func (c *client) frame(first byte, payload []byte) {
	c.t.Helper()
	if _, err := c.Write(maskedFrame(first, payload)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

func maskedFrame(first byte, payload []byte) []byte {
	b := appendHeader(nil, 0, len(payload))
	b[0] = first
	b[1] |= 0x80
	var mask [4]byte
	_, _ = rand.Read(mask[:])
	b = append(b, mask[:]...)
	for i, p := range payload {
		b = append(b, p^mask[i&3])
	}
	return b
}

// read gives the next frame.
func (c *client) read() (opcode byte, payload []byte, err error) {
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	var head [2]byte
	if _, err := io.ReadFull(c.br, head[:]); err != nil {
		return 0, nil, err
	}
	n := uint64(head[1])
	switch n {
	case 126:
		var b [2]byte
		if _, err = io.ReadFull(c.br, b[:]); err == nil {
			n = uint64(binary.BigEndian.Uint16(b[:]))
		}
	case 127:
		var b [8]byte
		if _, err = io.ReadFull(c.br, b[:]); err == nil {
			n = binary.BigEndian.Uint64(b[:])
		}
	}
	if err != nil {
		return 0, nil, err
	}
	payload = make([]byte, n)
	_, err = io.ReadFull(c.br, payload)
	return head[0] & 0x0f, payload, err
}

// next gives the next text message, or says how the connection ended: "closed 4400 reason" or "gone". Pings
// are answered.
func (c *client) next() string {
	for {
		opcode, payload, err := c.read()
		switch {
		case err != nil:
			return "gone"
		case opcode == opPing:
			c.frame(final|opPong, payload)
		case opcode == opPong:
			return "pong " + string(payload)
		case opcode == opClose:
			code, reason := binary.BigEndian.Uint16(payload), string(payload[2:])
			_, _ = c.Write(maskedFrame(final|opClose, payload[:2])) // it may be gone
			return fmt.Sprintf("closed %d %s", code, reason)
		default:
			return string(payload)
		}
	}
}

func (c *client) want(message string) {
	c.t.Helper()
	if got := c.next(); got != message {
		c.t.Fatalf("got  %s\nwant %s", got, message)
	}
}

// event is the payload of one next of a subscription to messages.
type event struct {
	Data struct {
		Messages struct {
			Edges []struct {
				Cursor string
				Node   struct{ Serial, Text string }
			}
			EndCursor string
			Live      bool
		}
	}
	Errors []struct {
		Message    string
		Extensions map[string]any
	}
}

type envelope struct {
	ID, Type string
	Payload  json.RawMessage
}

// event reads one next message.
func (c *client) event(id string) (e event) {
	c.t.Helper()
	m := c.message()
	if m.Type != typeNext || m.ID != id {
		c.t.Fatalf("got %s of %q, want next of %q: %s", m.Type, m.ID, id, m.Payload)
	}
	if err := json.Unmarshal(m.Payload, &e); err != nil {
		c.t.Fatal(err)
	}
	return e
}

func (c *client) message() (m envelope) {
	c.t.Helper()
	got := c.next()
	if err := json.Unmarshal([]byte(got), &m); err != nil {
		c.t.Fatalf("got %s", got)
	}
	return m
}

const messagesDocument = `subscription S($room: ID!, $after: String, $last: Int) { messages(chatRoomId: $room, after: $after, last: $last) { edges { cursor node { serial text } } endCursor live } }`

// subscribe follows the room; options are more variables as JSON members.
func (c *client) subscribe(id string, room domain.ChatRoomInfo, options string) {
	c.t.Helper()
	c.send(subscribeMessage(id, room, options))
}

func subscribeMessage(id string, room domain.ChatRoomInfo, options string) string {
	if options != "" {
		options = "," + options
	}
	var doc bytes.Buffer
	_ = json.NewEncoder(&doc).Encode(messagesDocument)
	return fmt.Sprintf(`{"id":%q,"type":"subscribe","payload":{"query":%s,"variables":{"room":%q%s}}}`, id, bytes.TrimSpace(doc.Bytes()), room.ID, options)
}

// eventually waits for a condition in real time: for what happens on real sockets.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func watchers(f domain.Feed) int { return domaintest.Watchers(f) }
