package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// house is a hub over a home in memory.
type house struct {
	t    *testing.T
	home *domaintest.Home
	room domain.ChatRoomInfo
	feed domain.Feed
	exec graphql.GraphExecutor
	hub  *Hub
	seen counts
}

type counts struct{ executed, delivered, pending, caughtUp, behind, cut atomic.Int64 }

func (c *counts) Executed() { c.executed.Add(1) }
func (c *counts) Delivered(n, pending int) {
	c.delivered.Add(int64(n))
	c.pending.Add(int64(pending))
}
func (c *counts) Cut() { c.cut.Add(1) }
func (c *counts) CaughtUp(behind domain.Serial) {
	c.caughtUp.Add(1)
	c.behind.Store(max(c.behind.Load(), int64(behind)))
}

// noon makes equal messages equal in two homes.
func noon() time.Time { return time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC) }

func newHouse(t *testing.T, cfg Config) *house {
	t.Helper()
	h := &house{t: t, home: domaintest.New(domaintest.Config{Now: noon})}
	h.room = h.home.AddRoomOn(0, "lobby")
	h.reopen()
	cfg.Observer, cfg.Log = &h.seen, slog.New(slog.DiscardHandler)
	h.hub = New(cfg)
	h.exec = newExecutor(h.home)
	return h
}

func newExecutor(home domain.ChatHome) *executor.Executor {
	exec := executor.New(graph.New(home))
	graph.Configure(exec, slog.New(slog.DiscardHandler))
	return exec
}

// reopen notes the feed of the present tenure.
func (h *house) reopen() {
	h.t.Helper()
	x, err := h.home.ChatRoom(context.Background(), h.room.Shard, h.room.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	h.feed = x.Feed()
}

// empty checks that nothing stays after everybody has left.
func (h *house) empty() {
	h.t.Helper()
	if n := domaintest.Watchers(h.feed); n != 0 {
		h.t.Errorf("%d watchers stay", n)
	}
	if n := h.hub.Groups(); n != 0 {
		h.t.Errorf("%d groups stay", n)
	}
	if n := h.hub.ringBytes.Load(); n != 0 {
		h.t.Errorf("%d bytes of rings stay", n)
	}
}

// cursorAt is the cursor behind a serial.
func (h *house) cursorAt(n domain.Serial) string {
	h.t.Helper()
	x, err := h.home.ChatRoom(context.Background(), h.room.Shard, h.room.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	c, err := x.CursorAt(context.Background(), n)
	if err != nil {
		h.t.Fatal(err)
	}
	return c.String()
}

// sink remembers what it gets. While it is slow, TrySend leaves everything pending until release.
type sink struct {
	mu       sync.Mutex
	slow     bool
	gate     chan struct{} // closed by release
	payloads [][]byte
	cursors  []string
	inFlight int
	overlap  bool
	ended    int // Complete
	failed   error
	err      error // TrySend and Send answer it
	onEvent  func([]byte)
}

func (s *sink) Frame(b *Builder, e *Event) *Frame {
	s.mu.Lock()
	s.payloads = append(s.payloads, e.Payload)
	s.cursors = append(s.cursors, e.Cursor)
	on := s.onEvent
	s.mu.Unlock()
	if on != nil {
		on(e.Payload)
	}
	return b.Build(&testLayout, nil, e)
}

var testLayout = Layout{Suffix: []byte("!")}

func (s *sink) begin() (gate chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overlap = s.overlap || s.inFlight > 0 || s.ended > 0
	s.inFlight++
	if s.slow && s.gate == nil {
		s.gate = make(chan struct{})
	}
	return s.gate
}

func (s *sink) finish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	return s.err
}

func (s *sink) TrySend(_ *Frame, done func(error)) (bool, error) {
	gate := s.begin()
	if gate == nil {
		return false, s.finish()
	}
	go func() {
		<-gate
		done(s.finish())
	}()
	return true, nil
}

func (s *sink) Send(*Frame) error {
	if gate := s.begin(); gate != nil {
		<-gate
	}
	return s.finish()
}

func (s *sink) Complete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.overlap = s.overlap || s.inFlight > 0
	s.ended++
}

func (s *sink) Fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = err
}

func (s *sink) setSlow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = true
}

func (s *sink) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = false
	if s.gate != nil {
		close(s.gate)
		s.gate = nil
	}
}

func (s *sink) events() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.payloads...)
}

const plainDocument = `subscription S($room: ID!, $after: String, $last: Int) { messages(chatRoomId: $room, after: $after, last: $last) { edges { cursor node { id clientId user text serial sentAt } } endCursor live } }`

// subscribe runs a document; options are pairs of variable and value.
func (h *house) subscribe(s Sink, document string, options ...any) *Subscription {
	h.t.Helper()
	return h.run(context.Background(), s, document, "", options...)
}

func (h *house) run(ctx context.Context, s Sink, document, viewer string, options ...any) *Subscription {
	h.t.Helper()
	op, err := operation(ctx, h.exec, document, h.room, options...)
	if err != nil {
		h.t.Fatal(err)
	}
	sub := h.hub.NewSubscription(ctx, s)
	sub.Run(Request{Exec: h.exec, Operation: op, Viewer: viewer, Sink: s})
	return sub
}

func operation(ctx context.Context, exec graphql.GraphExecutor, document string, room domain.ChatRoomInfo, options ...any) (*graphql.OperationContext, error) {
	vars := map[string]any{"room": room.ID.String()}
	name := ""
	for i := 0; i < len(options); i += 2 {
		if options[i] == "operationName" {
			name = options[i+1].(string)
			continue
		}
		vars[options[i].(string)] = options[i+1]
	}
	op, errs := exec.CreateOperationContext(graphql.StartOperationTrace(ctx), &graphql.RawParams{Query: document, OperationName: name, Variables: vars})
	if len(errs) > 0 {
		return nil, fmt.Errorf("operation: %w", errs)
	}
	return op, nil
}

// batch is what the tests read from an event of plainDocument.
type batch struct {
	Data struct {
		Messages *struct {
			Edges     []struct{ Node struct{ Serial string } }
			EndCursor string
			Live      bool
		}
	}
	Errors []struct{ Extensions struct{ Code string } }
}

func parse(t *testing.T, payload []byte) (b batch) {
	t.Helper()
	if err := json.Unmarshal(payload, &b); err != nil {
		t.Fatalf("%v: %s", err, payload)
	}
	return b
}

// serials checks that the events hold from … to without gap or repeat.
func serials(t *testing.T, payloads [][]byte, from, to int) {
	t.Helper()
	next := from
	for _, p := range payloads {
		b := parse(t, p)
		if b.Data.Messages == nil {
			continue
		}
		for _, e := range b.Data.Messages.Edges {
			if e.Node.Serial != fmt.Sprint(next) {
				t.Fatalf("serial %s, want %d", e.Node.Serial, next)
			}
			next++
		}
	}
	if next != to+1 {
		t.Fatalf("events end at %d, want %d", next-1, to)
	}
}

var errTorn = errors.New("torn")

func serial(n int64) domain.Serial { return domain.Serial(n) }
