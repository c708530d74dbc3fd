package sse_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/graphqlhttp"
	"github.com/chathome/chathome/server/peers"
	"github.com/chathome/chathome/server/sse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a server with one room in memory.
type service struct {
	t       *testing.T
	home    *domaintest.Home
	streams *sse.Server
	web     *httptest.Server
	room    uuid.UUID
	sent    int
}

// protocols: the streams behave alike on a hijacked connection and where net/http frames them.
var protocols = []string{"HTTP/1.1", "HTTP/2"}

func serve(t *testing.T, protocol string, cfg sse.Config, change ...func(*graphqlhttp.Config)) *service {
	t.Helper()
	return serveWithin(t, protocol, 0, cfg, change...)
}

// serveWithin gives the HTTP server time limits for reading a request and writing an answer.
func serveWithin(t *testing.T, protocol string, limit time.Duration, cfg sse.Config, change ...func(*graphqlhttp.Config)) *service {
	t.Helper()
	s := &service{t: t, home: domaintest.New(domaintest.Config{})}
	if cfg.Hub == nil {
		cfg.Hub = fanout.New(fanout.Config{})
	}
	s.streams = sse.New(cfg)
	log := slog.New(slog.DiscardHandler)
	present := graph.NewErrorPresenter(log)
	c := graphqlhttp.Config{
		Schema: graph.New(s.home), Present: present, Recover: graph.Recover,
		Extensions: graph.Extensions(present), Streams: s.streams, Log: log,
	}
	for _, f := range change {
		f(&c)
	}
	h, err := graphqlhttp.New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.web = httptest.NewUnstartedServer(h)
	s.web.Config.ReadTimeout, s.web.Config.WriteTimeout = limit, limit
	if cfg.SendBuffer > 0 {
		s.web.Listener = sendBuffer{s.web.Listener, cfg.SendBuffer}
	}
	if protocol == "HTTP/2" {
		s.web.EnableHTTP2 = true
		s.web.StartTLS()
	} else {
		s.web.Start()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.streams.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		s.web.Client().CloseIdleConnections()
		s.web.Close()
	})
	s.room = s.home.DrawChatRoomID()
	if _, _, err := s.home.CreateChatRoom(t.Context(), s.room, "tests"); err != nil {
		t.Fatal(err)
	}
	return s
}

// sendBuffer bounds what the kernel keeps where our own code cannot: below net/http's responses.
type sendBuffer struct {
	net.Listener
	bytes int
}

func (l sendBuffer) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		_ = c.(*net.TCPConn).SetWriteBuffer(l.bytes)
	}
	return c, err
}

func (s *service) shard() domain.ShardID {
	id, _ := s.home.ShardOf(s.room)
	return id
}

// send stores n messages. It may run on any goroutine.
func (s *service) send(n int) {
	s.t.Helper()
	room, err := s.home.ChatRoom(context.Background(), s.shard(), s.room)
	for i := 0; i < n && err == nil; i++ {
		s.sent++
		d := domain.Draft{User: "alice", ClientID: fmt.Sprint(s.sent), Text: fmt.Sprintf("line %d\nof \"<b>\"", s.sent)}
		_, _, err = room.Send(context.Background(), d)
	}
	if err != nil {
		s.t.Errorf("send: %v", err)
	}
}

const follow = `subscription($room: ID!, $after: String, $last: Int) {
  messages(chatRoomId: $room, after: $after, last: $last) { edges { cursor node { serial text } } endCursor live } }`

// open starts a stream; variables beside the room may be given.
func (s *service) open(query string, vars map[string]any, headers ...string) *client {
	s.t.Helper()
	if vars == nil {
		vars = map[string]any{}
	}
	vars["room"] = s.room
	if !strings.Contains(query, "$room") {
		vars = nil
	}
	body, _ := json.Marshal(map[string]any{"query": query, "variables": vars})
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, s.web.URL+"/graphql", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.web.Client().Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = resp.Body.Close() })
	return &client{t: s.t, Response: resp, lines: bufio.NewReaderSize(resp.Body, 1<<20), cancel: cancel}
}

type client struct {
	*http.Response
	t        *testing.T
	lines    *bufio.Reader
	cancel   context.CancelFunc
	comments int
}

type event struct {
	id, name, data string
	batch          batch
}

type batch struct {
	Data *struct {
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

// next is a strict parser: it takes what the specification allows a server to send, and of that only what
// ours sends. An event has one name, one data line and at most one id.
func (c *client) next() (event, error) {
	c.t.Helper()
	var e event
	names, data, ids := 0, 0, 0
	for {
		line, err := c.lines.ReadString('\n')
		if err != nil {
			if line != "" || names+data+ids > 0 {
				return e, fmt.Errorf("torn event %.40q: %w", line, err)
			}
			return e, err
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" && names+data+ids == 0: // behind a comment
			c.comments++
		case line == "":
			if names != 1 || data != 1 || ids > 1 {
				c.t.Fatalf("%d names, %d data lines, %d ids in one event", names, data, ids)
			}
			switch e.name {
			case "next":
				if err := json.Unmarshal([]byte(e.data), &e.batch); err != nil {
					c.t.Fatalf("not JSON: %v: %s", err, e.data)
				}
			case "complete":
				if e.data != "" {
					c.t.Fatalf("complete with data %q", e.data)
				}
			default:
				c.t.Fatalf("event %q", e.name)
			}
			return e, nil
		case line == ":":
			if names+data+ids > 0 {
				c.t.Fatal("a comment within an event")
			}
		case line == "data:":
			data++
		case strings.HasPrefix(line, "id: "):
			e.id, ids = line[4:], ids+1
		case strings.HasPrefix(line, "event: "):
			e.name, names = line[7:], names+1
		case strings.HasPrefix(line, "data: "):
			e.data, data = line[6:], data+1
		default:
			c.t.Fatalf("line %q", line)
		}
	}
}

func (c *client) must() event {
	c.t.Helper()
	e, err := c.next()
	if err != nil {
		c.t.Fatal(err)
	}
	return e
}

// until reads events until serial has come; it reports the serials.
func (c *client) until(serial int) (serials []string, last event) {
	c.t.Helper()
	for {
		e := c.must()
		if e.batch.Data == nil {
			c.t.Fatalf("event %+v", e)
		}
		for _, m := range e.batch.Data.Messages.Edges {
			serials = append(serials, m.Node.Serial)
		}
		if n := len(serials); n > 0 && serials[n-1] == fmt.Sprint(serial) {
			return serials, e
		}
	}
}

func wantSerials(t *testing.T, got []string, from, to int) {
	t.Helper()
	if len(got) != to-from+1 {
		t.Fatalf("%d messages, want %d to %d", len(got), from, to)
	}
	for i, s := range got {
		if s != fmt.Sprint(from+i) {
			t.Fatalf("serial %s at place %d", s, i)
		}
	}
}

func each(t *testing.T, test func(t *testing.T, protocol string)) {
	for _, p := range protocols {
		t.Run(p, func(t *testing.T) { test(t, p) })
	}
}

func TestStream_SaysAtOnceThatItStands(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		s := serve(t, protocol, sse.Config{})
		c := s.open(follow, nil)
		if got := c.Header.Get("Content-Type"); c.StatusCode != 200 || got != "text/event-stream; charset=utf-8" {
			t.Fatalf("%d %s", c.StatusCode, got)
		}
		for name, want := range map[string]string{"X-Accel-Buffering": "no", "Cache-Control": "no-cache, no-transform"} {
			if got := c.Header.Get(name); got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
		if c.Proto != protocol+".0" && c.Proto != protocol {
			t.Errorf("this is %s", c.Proto)
		}
		e := c.must()
		if e.name != "next" || e.batch.Data == nil || !e.batch.Data.Messages.Live || len(e.batch.Data.Messages.Edges) != 0 {
			t.Fatalf("first event %+v", e)
		}
		if e.id == "" || e.id != e.batch.Data.Messages.EndCursor {
			t.Errorf("id %q, end cursor %q", e.id, e.batch.Data.Messages.EndCursor)
		}
		s.send(3)
		got, _ := c.until(3)
		wantSerials(t, got, 1, 3)
	})
}

// Nothing is glued together at a high rate, keep-alives included.
func TestStream_FiveThousandEventsAreWellFormed(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		s := serveWithin(t, protocol, time.Second, sse.Config{KeepAlive: time.Millisecond})
		c := s.open(follow, nil)
		go s.send(5000)
		got, _ := c.until(5000)
		wantSerials(t, got, 1, 5000)
		if c.comments < 2 {
			t.Errorf("%d comments", c.comments)
		}
		c.outlivesTimeouts(s)
	})
}

// outlivesTimeouts: a stream that idles beyond net/http's timeouts goes on.
func (c *client) outlivesTimeouts(s *service) {
	c.t.Helper()
	time.Sleep(1100 * time.Millisecond) // real: net/http's timeouts have to pass
	s.send(1)
	got, _ := c.until(s.sent)
	wantSerials(c.t, got, s.sent, s.sent)
}

func TestStream_ResumesBehindLastEventID(t *testing.T) {
	queries := map[string]string{
		"variable": follow,
		"none":     `subscription($room: ID!) { messages(chatRoomId: $room) { edges { node { serial } } endCursor } }`,
		"last":     `subscription($room: ID!) { messages(chatRoomId: $room, last: 1) { edges { node { serial } } endCursor } }`,
		"unnamed":  `subscription($room: ID!) { messages(chatRoomId: $room, last: 0) { edges { node { serial } } } }`,
	}
	for name, query := range queries {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "HTTP/1.1", sse.Config{})
			s.send(10)
			first := s.open(follow, nil)
			_, e := first.until(10)
			id := e.id
			s.send(10)
			var vars map[string]any
			if name == "variable" {
				vars = map[string]any{"last": 3} // would contradict the cursor
			}
			c := s.open(query, vars, "Last-Event-ID", id)
			got, _ := c.until(20)
			wantSerials(t, got, 11, 20)
		})
	}
}

func TestStream_RefusesAForeignLastEventID(t *testing.T) {
	s := serve(t, "HTTP/1.1", sse.Config{})
	c := s.open(follow, nil, "Last-Event-ID", "17")
	e := c.must()
	if len(e.batch.Errors) != 1 || e.batch.Errors[0].Extensions["code"] != "BAD_REQUEST" {
		t.Fatalf("%+v", e)
	}
	if e := c.must(); e.name != "complete" {
		t.Fatalf("%+v", e)
	}
}

func TestStream_EndsWithTheReasonAndComplete(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		s := serve(t, protocol, sse.Config{})
		c := s.open(follow, nil)
		c.must()
		s.home.Lock(s.shard())
		e := c.must()
		if len(e.batch.Errors) != 1 || e.batch.Errors[0].Extensions["code"] != "SHARD_NOT_OWNED" || !strings.Contains(e.data, `"data":null`) {
			t.Fatalf("%+v", e)
		}
		if e := c.must(); e.name != "complete" {
			t.Fatalf("%+v", e)
		}
		if _, err := c.next(); err != io.EOF { // a clean end of the body
			t.Fatal(err)
		}
	})
}

func TestStream_RefusalsAreEvents(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		s := serve(t, protocol, sse.Config{})
		for _, query := range []string{"{", "{nothing}", "subscription { messages }", "{" + strings.Repeat(" a:__typename", 1000) + "}"} {
			c := s.open(query, nil)
			e := c.must()
			if len(e.batch.Errors) == 0 || strings.Contains(e.data, `"data"`) || e.batch.Errors[0].Extensions["code"] != "BAD_REQUEST" {
				t.Errorf("%s: %+v", query, e)
			}
			if e := c.must(); e.name != "complete" {
				t.Errorf("%s: %+v", query, e)
			}
		}
	})
}

func TestStream_CarriesQueriesAndMutationsToo(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		s := serve(t, protocol, sse.Config{})
		for _, query := range []string{"{__typename}", `mutation{createChatRoom(input:{name:"x"}){__typename}}`} {
			c := s.open(query, nil)
			if e := c.must(); e.name != "next" || !strings.Contains(e.data, `"__typename"`) {
				t.Errorf("%+v", e)
			}
			if e := c.must(); e.name != "complete" {
				t.Errorf("%+v", e)
			}
		}
	})
}

func TestStream_StopsWhenTheClientLeaves(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		hub := fanout.New(fanout.Config{})
		s := serve(t, protocol, sse.Config{Hub: hub, KeepAlive: 50 * time.Millisecond})
		for range 20 {
			c := s.open(follow, nil)
			c.must()
			c.cancel()
		}
		eventually(t, "streams and groups are gone", func() bool { return s.streams.Streams() == 0 && hub.Groups() == 0 })
	})
}

// A peer that stops reading is cut by the write deadline; the others notice nothing.
func TestStream_CutsAPeerThatDoesNotRead(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/1.0"} { // the socket, and net/http's response
		s := serve(t, protocol, sse.Config{WriteTimeout: time.Second, SendBuffer: 4096, KeepAlive: time.Minute})
		dead := s.dial(protocol)
		eventually(t, "the stream is open", func() bool { return s.streams.Streams() == 1 })
		live := s.open(follow, nil)
		live.must()
		go s.send(8000)
		got, _ := live.until(8000)
		wantSerials(t, got, 1, 8000)
		eventually(t, "the dead peer is cut", func() bool { return s.streams.Streams() == 1 })
		_ = dead.Close()
	}
}

// dial opens a stream on a raw connection whose client reads nothing.
func (s *service) dial(protocol string) net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.web.Listener.Addr().String())
	if err != nil {
		s.t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(4096)
	body, _ := json.Marshal(map[string]any{"query": follow, "variables": map[string]any{"room": s.room}})
	_, err = fmt.Fprintf(conn, "POST /graphql %s\r\nHost: x\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", protocol, len(body), body)
	if err != nil {
		s.t.Fatal(err)
	}
	return conn
}

func TestStream_CutsAPeerThatTalks(t *testing.T) {
	s := serve(t, "HTTP/1.1", sse.Config{})
	conn := s.dial("HTTP/1.1")
	defer func() { _ = conn.Close() }()
	eventually(t, "the stream is open", func() bool { return s.streams.Streams() == 1 })
	_, _ = conn.Write(make([]byte, 64<<10))
	eventually(t, "the peer is cut", func() bool { return s.streams.Streams() == 0 })
}

func TestStream_EndsWhenTheProofExpires(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		s := serve(t, protocol, sse.Config{}, func(c *graphqlhttp.Config) {
			c.Authenticate = func(_ context.Context, h http.Header, _ json.RawMessage) (string, time.Time, error) {
				if h.Get("Authorization") == "" {
					return "", time.Time{}, errors.New("no token")
				}
				return "alice", time.Now().Add(200 * time.Millisecond), nil
			}
		})
		if c := s.open(follow, nil); c.StatusCode != http.StatusUnauthorized {
			t.Fatalf("without a token: %d", c.StatusCode)
		}
		c := s.open(follow, nil, "Authorization", "Bearer x")
		first := c.must()
		if _, err := c.next(); err == nil || err == io.EOF { // not a clean end: the client is to come again
			t.Fatalf("ended with %v", err)
		}
		s.send(2)
		again := s.open(follow, nil, "Authorization", "Bearer y", "Last-Event-ID", first.id)
		got, _ := again.until(2)
		wantSerials(t, got, 1, 2)
	})
}

func TestServer_AdmitsNoMoreThanItMay(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		for _, cfg := range []sse.Config{{MaxStreams: 2}, {MaxPerAddress: 2}, {Limiter: peers.NewLimiter(2, 0)}, {Operations: peers.NewLimiter(2*(1+len(follow)/256), 0)}} {
			admitsTwo(t, protocol, cfg)
		}
	})
}

func admitsTwo(t *testing.T, protocol string, cfg sse.Config) {
	t.Helper()
	s := serve(t, protocol, cfg)
	a, b := s.open(follow, nil), s.open(follow, nil)
	a.must()
	b.must()
	if c := s.open(follow, nil); c.StatusCode != http.StatusServiceUnavailable || c.Header.Get("Retry-After") == "" {
		t.Fatalf("third stream: %d", c.StatusCode)
	}
	a.cancel()
	eventually(t, "there is room again", func() bool { return s.streams.Streams() == 1 })
	s.open(follow, nil).must()
}

func TestServer_ShutdownEndsStreamsAsAFault(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		s := serve(t, protocol, sse.Config{})
		c := s.open(follow, nil)
		c.must()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := s.streams.Shutdown(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := c.next(); err == nil || err == io.EOF {
			t.Fatalf("ended with %v: the client would not come again", err)
		}
		if c := s.open(follow, nil); c.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("after the shutdown: %d", c.StatusCode)
		}
	})
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 5 s: %s", what)
}
