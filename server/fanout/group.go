package fanout

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/chathome/chathome/domain"
)

// group is the subscriptions whose events are the same bytes wherever they stand at the same position.
type group struct {
	hub   *Hub
	id    groupID
	share bool                    // false: a group of one, which is not in the hub's map
	lanes atomic.Pointer[[]*lane] // read by wake-ups without a lock; replaced under mu
	stop  func()                  // of the feed's watch

	mu   sync.Mutex // guards ring and the members of the lanes
	ring ring

	// executing makes members wait for each other where they stand at the same position in different lanes
	// or catch up: the second one finds the event of the first. Taken without mu.
	executing keyedMutex
}

func newGroup(h *Hub, id groupID, share bool) *group {
	g := &group{hub: h, id: id, share: share, ring: ring{total: &h.ringBytes}}
	g.lanes.Store(&[]*lane{})
	g.stop = id.feed.Watch(g.wake)
	return g
}

// wake is called by the feed after each advance and after its end: it must not wait for anything.
func (g *group) wake() {
	for _, l := range *g.lanes.Load() {
		l.wake()
	}
}

// add puts s into a lane with room. Called under Hub.mu.
func (g *group) add(s *Subscription) *lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	lanes := *g.lanes.Load()
	i := slices.IndexFunc(lanes, func(l *lane) bool { return len(l.members) < g.hub.cfg.LaneSize })
	if i < 0 {
		i = len(lanes)
		lanes = append(slices.Clone(lanes), &lane{g: g})
		lanes[i].front.Store(int64(g.id.feed.Tip()))
		g.lanes.Store(&lanes)
	}
	l := lanes[i]
	s.lane = l
	l.members = append(l.members, s)
	return l
}

// remove takes s out. Called under Hub.mu. empty: nobody is left, and the feed is not watched any more.
func (g *group) remove(s *Subscription) (empty bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := s.lane
	i := slices.Index(l.members, s)
	if i < 0 {
		return false
	}
	// A copy: the lane's goroutine may be walking the old slice.
	l.members = slices.Concat(l.members[:i], l.members[i+1:])
	if len(l.members) > 0 {
		return false
	}
	lanes := slices.DeleteFunc(slices.Clone(*g.lanes.Load()), func(o *lane) bool { return o == l })
	g.lanes.Store(&lanes)
	if len(lanes) > 0 {
		return false
	}
	g.ring.clear()
	g.stop()
	return true
}

// find looks for an event that somebody else made for where s stands.
func (g *group) find(s *Subscription, tip domain.Serial) *entry {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ring.find(s.pos, s.joined, tip)
}

// event gives s the event from its position on: one that is there, or one that s executes. upTo is as in
// stream.Read. nil: s has been stopped.
func (g *group) event(s *Subscription, upTo domain.Serial) *entry {
	if !g.share {
		return s.execute(upTo)
	}
	g.executing.lock(s.pos)
	defer g.executing.unlock(s.pos)
	if e := g.find(s, g.id.feed.Tip()); e != nil {
		return e
	}
	e := s.execute(upTo)
	if e != nil && !e.private {
		g.mu.Lock()
		if len(*g.lanes.Load()) > 0 { // else nobody would clear it
			g.ring.add(e, &g.hub.cfg)
		}
		g.mu.Unlock()
	}
	return e
}
