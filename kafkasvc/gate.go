package kafkasvc

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/feed"
)

// Policy says when the gate opens after an assignment.
type Policy string

const (
	PolicyInstance Policy = "instance" // when all assigned shards are loaded: the seed's
	PolicyShard    Policy = "shard"    // each shard as soon as it is loaded
)

// phase is how far one assigned shard is.
type phase uint8

const (
	phaseLocked  phase = iota // waits for its takeover, or for a fault to end
	phaseLoading              // taken over, reading up to the takeover
	phaseLoaded
	phaseAlarmed // set aside by a fault that a person has to look at; retried all the same
)

// place is one assigned shard behind the gate.
type place struct {
	phase  phase
	tenure *tenure // while loading and loaded
	reason string  // why it is locked or alarmed: a constant, for people
}

// view is the whole gate at one moment. It is never changed, only replaced, so a request reads it without a
// lock and can see later whether it still holds.
//
//	LOCKED   generation is nil: starting, rebalancing, lost, stopping
//	LOADING  a generation, opened is false
//	OPEN     opened: from here on a fault locks its own shard alone
type view struct {
	generation *generation
	opened     bool
	places     map[domain.ShardID]place
}

// assigned is the view at the start of a generation: everything it brings is locked.
func assigned(g *generation, shards []domain.ShardID, policy Policy) view {
	v := view{generation: g, places: make(map[domain.ShardID]place, len(shards))}
	for _, s := range shards {
		v.places[s] = place{phase: phaseLocked, reason: "taking over"}
	}
	return v.settled(policy)
}

// with replaces one shard's place, and opens when that was the last one the policy waits for.
func (v view) with(s domain.ShardID, p place, policy Policy) view {
	v.places = maps.Clone(v.places)
	v.places[s] = p
	return v.settled(policy)
}

// settled is the one place that decides about opening.
func (v view) settled(policy Policy) view {
	if v.generation == nil || v.opened {
		return v
	}
	v.opened = true
	for _, p := range v.places {
		if policy == PolicyInstance && p.phase != phaseLoaded && p.phase != phaseAlarmed {
			v.opened = false
		}
	}
	return v
}

// state is a shard as seen from outside.
func (v view) state(s domain.ShardID) domain.ShardState {
	if v.generation == nil {
		return domain.ShardLocked
	}
	p, ok := v.places[s]
	switch {
	case !ok:
		return domain.ShardNotAssigned
	case p.phase == phaseLoaded && v.opened:
		return domain.ShardOpen
	case p.phase == phaseLoaded, p.phase == phaseLoading:
		return domain.ShardLoading
	}
	return domain.ShardLocked
}

// gate is ChatHome's lock: the only place that decides whether a request may pass, and whether its answer may
// still leave. Everything behind it relies on that and asks no more.
type gate struct {
	policy  Policy
	self    domain.Instance
	owner   func(domain.ShardID) *domain.Owner // from the directory
	changed *feed.Feed

	refused [shardStates]atomic.Int64 // requests, by the state that they were told

	mu    sync.Mutex // one replaces the view at a time
	view  atomic.Pointer[view]
	times stateTimes // under mu
}

func newGate(policy Policy, self domain.Instance, owner func(domain.ShardID) *domain.Owner) *gate {
	g := &gate{policy: policy, self: self, owner: owner, changed: feed.New(0, nil)}
	g.view.Store(&view{})
	g.times.note(&view{}, time.Now())
	return g
}

// enter lets a request pass, or says why not.
func (g *gate) enter(s domain.ShardID) (*tenure, error) {
	v := g.view.Load()
	if v.state(s) == domain.ShardOpen {
		if t := v.places[s].tenure; t.generation.lease.Valid() {
			return t, nil
		}
	}
	no := g.notOwned(v, s)
	g.refused[no.State].Add(1)
	return nil, no
}

// holds says whether the tenure that a request entered by still holds the gate: ask before an answer leaves.
func (g *gate) holds(t *tenure) error {
	v := g.view.Load()
	if p := v.places[t.shard.id]; p.tenure == t && v.state(t.shard.id) == domain.ShardOpen && t.generation.lease.Valid() {
		return nil
	}
	return g.notOwned(v, t.shard.id)
}

// refusal is what a request for s would get now; nil when it would pass.
func (g *gate) refusal(s domain.ShardID) *domain.ShardNotOwnedError {
	v := g.view.Load()
	if v.state(s) == domain.ShardOpen && v.places[s].tenure.generation.lease.Valid() {
		return nil
	}
	return g.notOwned(v, s)
}

func (g *gate) notOwned(v *view, s domain.ShardID) *domain.ShardNotOwnedError {
	e := &domain.ShardNotOwnedError{Shard: s, State: v.state(s), Instance: g.self, Owner: g.owner(s)}
	p := v.places[s]
	switch e.State {
	case domain.ShardOpen: // it would be, but the lease has run out
		e.State, e.RetryAfter = domain.ShardLocked, 500*time.Millisecond
	case domain.ShardLoading:
		progress := p.tenure.progress()
		e.Progress, e.RetryAfter = &progress, 250*time.Millisecond
	case domain.ShardNotAssigned:
		e.RetryAfter = time.Second
	default:
		e.RetryAfter = 250 * time.Millisecond
	}
	if e.Owner != nil && e.Owner.Instance.ID == g.self.ID && e.State == domain.ShardNotAssigned {
		e.Owner = nil // the directory does not know the successor yet
	}
	return e
}

// busy is what a write gets that was not stored although its shard is open here by now.
func (g *gate) busy(s domain.ShardID) *domain.ShardNotOwnedError {
	e := g.notOwned(g.view.Load(), s)
	if e.State == domain.ShardOpen {
		e.State = domain.ShardLocked
	}
	e.RetryAfter = 50 * time.Millisecond
	return e
}

// The transitions. Each is called by one of: the group (assign, lock), a shard's keeper (place).

func (g *gate) assign(gen *generation, shards []domain.ShardID) {
	g.replace(func(view) view { return assigned(gen, shards, g.policy) })
}

// lock answers every request of every shard with ShardNotOwned from here on.
func (g *gate) lock() { g.replace(func(view) view { return view{} }) }

// place moves one shard. A keeper of an earlier generation changes nothing.
func (g *gate) place(gen *generation, s domain.ShardID, p place) {
	g.replace(func(v view) view {
		if v.generation != gen {
			return v
		}
		return v.with(s, p, g.policy)
	})
}

func (g *gate) replace(f func(view) view) {
	g.mu.Lock()
	old := g.view.Load()
	next := f(*old)
	g.view.Store(&next)
	g.times.note(&next, time.Now())
	g.mu.Unlock()
	for s, p := range old.places { // who follows a room that is not open any more must hear of it
		if p.tenure != nil && old.state(s) == domain.ShardOpen && (next.state(s) != domain.ShardOpen || next.places[s].tenure != p.tenure) {
			p.tenure.rooms.endFeeds(g.notOwned(&next, s))
		}
	}
	g.touch()
}

// lapsed ends what follows a room of the generation whose lease has run out.
func (g *gate) lapsed(gen *generation) {
	v := g.view.Load()
	if v.generation != gen {
		return
	}
	for s, p := range v.places {
		if p.tenure != nil && p.phase == phaseLoaded {
			p.tenure.rooms.endFeeds(g.notOwned(v, s))
		}
	}
	g.touch()
}

// touch tells who follows the shards' states that they are to be looked at again.
func (g *gate) touch() {
	g.changed.Step()
}

// Reason says why a part of this instance is not ready.
type Reason struct {
	Shard  *domain.ShardID `json:"shard,omitempty"` // nil: the whole instance
	State  string          `json:"state"`
	Reason string          `json:"reason"`
}

// reasons is empty when the gate is open for what is assigned here, also when that is nothing.
func (g *gate) reasons() []Reason {
	v := g.view.Load()
	if v.generation == nil {
		return []Reason{{State: domain.ShardLocked.String(), Reason: "not in a generation of the consumer group"}}
	}
	var rs []Reason
	for _, s := range slices.Sorted(maps.Keys(v.places)) {
		no := g.refusal(s)
		if no == nil {
			continue
		}
		r := Reason{Shard: &s, State: no.State.String(), Reason: v.places[s].reason}
		switch {
		case no.Progress != nil && v.places[s].phase == phaseLoaded:
			r.Reason = "loaded, waiting for the other shards"
		case no.Progress != nil:
			r.Reason = fmt.Sprintf("loading: offset %d of %d", no.Progress.Loaded, no.Progress.Target)
		case r.Reason == "":
			r.Reason = "the lease has run out: no heartbeat was answered in time"
		}
		rs = append(rs, r)
	}
	return rs
}
