package kafkasvc

import (
	"errors"
	"slices"
	"testing"

	"github.com/chathome/chathome/domain"
)

func testGate(policy Policy) (*gate, *generation, *fakeLease) {
	l := &fakeLease{}
	g := newGate(policy, domain.Instance{ID: "me"}, func(domain.ShardID) *domain.Owner { return nil })
	return g, &generation{id: 1, lease: l}, l
}

func tenureOn(g *gate, gen *generation, id domain.ShardID) *tenure {
	t := &tenure{gate: g, generation: gen, shard: &shard{id: id}}
	t.rooms = newRooms(nil, t.holds)
	return t
}

func states(g *gate, n int) (list []string) {
	for i := range n {
		s := "OPEN"
		if no := g.refusal(domain.ShardID(i)); no != nil {
			s = no.State.String()
		}
		list = append(list, s)
	}
	return list
}

func TestGate_LockedLoadingOpen(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		steps  [][]string
	}{
		{PolicyInstance, [][]string{
			{"LOCKED", "LOCKED", "NOT_ASSIGNED"}, {"LOADING", "LOCKED", "NOT_ASSIGNED"}, {"LOADING", "LOCKED", "NOT_ASSIGNED"},
			{"OPEN", "OPEN", "NOT_ASSIGNED"}, {"OPEN", "LOCKED", "NOT_ASSIGNED"}, {"LOCKED", "LOCKED", "LOCKED"},
		}},
		{PolicyShard, [][]string{
			{"LOCKED", "LOCKED", "NOT_ASSIGNED"}, {"LOADING", "LOCKED", "NOT_ASSIGNED"}, {"OPEN", "LOCKED", "NOT_ASSIGNED"},
			{"OPEN", "OPEN", "NOT_ASSIGNED"}, {"OPEN", "LOCKED", "NOT_ASSIGNED"}, {"LOCKED", "LOCKED", "LOCKED"},
		}},
	} {
		g, gen, _ := testGate(c.policy)
		t0, t1 := tenureOn(g, gen, 0), tenureOn(g, gen, 1)
		for i, step := range []func(){
			func() { g.assign(gen, []domain.ShardID{0, 1}) },
			func() { g.place(gen, 0, place{phase: phaseLoading, tenure: t0}) },
			func() { g.place(gen, 0, place{phase: phaseLoaded, tenure: t0}) },
			func() { g.place(gen, 1, place{phase: phaseLoaded, tenure: t1}) },
			func() { g.place(gen, 1, place{phase: phaseLocked}) }, // fenced: that shard alone
			func() { g.lock() },
		} {
			step()
			if got := states(g, 3); !slices.Equal(got, c.steps[i]) {
				t.Errorf("%s, step %d: %v, want %v", c.policy, i, got, c.steps[i])
			}
		}
	}
}

func TestGate_AnAlarmedShardDoesNotHoldTheOthersBack(t *testing.T) {
	g, gen, _ := testGate(PolicyInstance)
	g.assign(gen, []domain.ShardID{0, 1})
	g.place(gen, 0, place{phase: phaseLoaded, tenure: tenureOn(g, gen, 0)})
	g.place(gen, 1, place{phase: phaseAlarmed, reason: "a hole"})
	if got := states(g, 2); !slices.Equal(got, []string{"OPEN", "LOCKED"}) {
		t.Error(got)
	}
	if rs := g.reasons(); len(rs) != 1 || rs[0].Shard == nil || *rs[0].Shard != 1 || rs[0].Reason != "a hole" {
		t.Errorf("%+v", rs)
	}
}

func TestGate_OpensForNothing(t *testing.T) {
	g, gen, _ := testGate(PolicyInstance)
	if len(g.reasons()) == 0 {
		t.Error("ready without a generation")
	}
	g.assign(gen, nil)
	if rs := g.reasons(); len(rs) != 0 {
		t.Errorf("%+v", rs)
	}
}

func TestGate_AsksTheLeaseOnEntryAndOnLeaving(t *testing.T) {
	g, gen, lease := testGate(PolicyShard)
	ten := tenureOn(g, gen, 0)
	g.assign(gen, []domain.ShardID{0})
	g.place(gen, 0, place{phase: phaseLoaded, tenure: ten})
	if got, err := g.enter(0); err != nil || got != ten || g.holds(ten) != nil {
		t.Fatalf("%v %v", got, err)
	}
	lease.set(true, false)
	var no *domain.ShardNotOwnedError
	if _, err := g.enter(0); !errors.As(err, &no) || no.State != domain.ShardLocked {
		t.Errorf("entry: %v", err)
	}
	if err := g.holds(ten); !errors.As(err, &no) {
		t.Errorf("leaving: %v", err)
	}
}

func TestGate_AnOlderGenerationChangesNothing(t *testing.T) {
	g, gen, _ := testGate(PolicyShard)
	g.assign(gen, []domain.ShardID{0})
	next := &generation{id: 2, lease: &fakeLease{}}
	g.assign(next, []domain.ShardID{0})
	g.place(gen, 0, place{phase: phaseLoaded, tenure: tenureOn(g, gen, 0)})
	if got := states(g, 1); got[0] != "LOCKED" {
		t.Error("a keeper of an earlier generation opened the gate")
	}
}

func TestGate_ATenureDoesNotPassForAnother(t *testing.T) {
	g, gen, _ := testGate(PolicyShard)
	old, now := tenureOn(g, gen, 0), tenureOn(g, gen, 0)
	g.assign(gen, []domain.ShardID{0})
	g.place(gen, 0, place{phase: phaseLoaded, tenure: old})
	g.place(gen, 0, place{phase: phaseLoaded, tenure: now})
	if g.holds(old) == nil || g.holds(now) != nil {
		t.Error("a handle of an ended tenure holds the gate")
	}
}

func TestTenure_EndedCommitsNothing(t *testing.T) {
	s := &shard{}
	a, b := &tenure{shard: s}, &tenure{shard: s}
	ran := 0
	try := func(t *tenure) error { return t.commit(func() error { ran++; return nil }) }
	s.begin(a)
	if err := try(a); err != nil || ran != 1 {
		t.Fatalf("%v %d", err, ran)
	}
	s.begin(b)
	if err := try(a); !errors.Is(err, errNotCurrent) || ran != 1 {
		t.Errorf("an older tenure committed: %v %d", err, ran)
	}
	s.end(a) // late: changes nothing
	if err := try(b); err != nil || ran != 2 {
		t.Errorf("%v %d", err, ran)
	}
	s.end(b)
	if err := try(b); !errors.Is(err, errNotCurrent) || ran != 2 {
		t.Errorf("an ended tenure committed: %v %d", err, ran)
	}
}

// Answers that append nothing are reads: decided under the lease, they leave only under the lease.
func TestWriter_RepliesOnlyUnderTheLease(t *testing.T) {
	g, gen, lease := testGate(PolicyShard)
	ten := tenureOn(g, gen, 0)
	g.assign(gen, []domain.ShardID{0})
	g.place(gen, 0, place{phase: phaseLoaded, tenure: ten})
	w := &writer{tenure: ten}
	for _, lapsed := range []bool{false, true} {
		lease.set(lapsed, false)
		c := newCommand([16]byte{})
		w.reply([]reply{{c, result{duplicate: true}}})
		if r := <-c.done; errors.Is(r.err, errNotStored) != lapsed {
			t.Errorf("lapsed %t: %+v", lapsed, r)
		}
	}
}
