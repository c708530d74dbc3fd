package fanout

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph/stream"
)

// Hub runs operations for transports and lets those share events that may. One Hub serves all transports of
// a server.
type Hub struct {
	cfg       Config
	turns     turns // of members that catch up
	ringBytes atomic.Int64

	mu      sync.Mutex
	groups  map[groupID]*group
	members int
}

// groupID: whose events are the same bytes.
type groupID struct {
	feed domain.Feed
	key  string
}

// New returns a Hub that is ready. It needs no end: it has no goroutine of its own.
func New(cfg Config) *Hub {
	cfg = cfg.withDefaults()
	return &Hub{cfg: cfg, turns: make(turns, cfg.CatchUps), groups: map[groupID]*group{}}
}

// NewSubscription makes the handle of one operation, so that Stop can be called while Run is at work.
func (h *Hub) NewSubscription(ctx context.Context, sink Sink) *Subscription {
	s := &Subscription{hub: h, sink: sink}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// Run executes the operation. A query or a mutation is over when it returns; a subscription goes on by
// itself, until it ends or Stop is called. Either way the sink is told how it ended, unless Stop came first.
func (s *Subscription) Run(r Request) {
	if r.Operation.Operation.Operation == ast.Subscription {
		runtime.Gosched() // who begins to follow comes after those who do
	}
	ctx, st := stream.Share(s.ctx)
	if !s.dispatch(ctx, r) {
		return
	}
	if !st.Following() {
		s.runAlone()
		return
	}
	s.stream, s.pos, s.joined, s.first = st, st.Start(), st.Feed().Tip(), true
	s.done = s.wrote
	key, share := groupKey(r.Operation, r.Viewer, s.hub.cfg.Classify)
	s.hub.join(s, groupID{st.Feed(), key}, share)
}

// join puts s into a group and wakes it: the first event is due at once.
func (h *Hub) join(s *Subscription, id groupID, share bool) {
	h.mu.Lock()
	if s.gone.Load() { // leave has come first, and found no lane
		h.mu.Unlock()
		return
	}
	var g *group
	if share {
		g = h.groups[id]
	}
	if g == nil {
		g = newGroup(h, id, share)
		if share {
			h.groups[id] = g
		}
	}
	l := g.add(s)
	h.members++
	h.mu.Unlock()
	l.wake()
}

// leave takes s out of its group, and an empty group out of the hub.
func (h *Hub) leave(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := s.lane
	if l == nil {
		return // it has not joined yet; add sees that it is gone
	}
	h.members--
	if l.g.remove(s) && l.g.share && h.groups[l.g.id] == l.g {
		delete(h.groups, l.g.id)
	}
}

// Groups is how many groups there are, for tests and metrics.
func (h *Hub) Groups() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.groups)
}

// Subscriptions is how many there are that follow a feed.
func (h *Hub) Subscriptions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.members
}
