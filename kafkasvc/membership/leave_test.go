package membership

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// stopLimit is what a stop may take whatever happens, when the handler has nothing to drain: the promise
// gives an idle instance 2 s for all of its stop.
const stopLimit = 1100 * time.Millisecond

// members says how many the group has.
func (g *group) members() int {
	info := g.cluster.GroupInfo(testGroup)
	if info == nil {
		return 0
	}
	return len(info.Members)
}

// once drains for d, the first time. Others wait for this member meanwhile, at the broker.
func once(d time.Duration) func(context.Context) {
	var o sync.Once
	return func(context.Context) { o.Do(func() { time.Sleep(d) }) }
}

func TestLeave_GenerationAlive(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a").start()
		g.within(time.Second, "a owns all", g.settled(a))
		gen := a.generation()
		if took := a.stop(); took > 100*time.Millisecond || a.err != nil {
			t.Errorf("took %v: %v", took, a.err)
		}
		if !errors.Is(gen.Lease.Err(), ErrStopped) {
			t.Errorf("the lease ended with %v", gen.Lease.Err())
		}
		if n := g.members(); n != 0 {
			t.Errorf("%d members are left", n)
		}
		if n := a.link.Conns(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// The drain counts apart: LeaveGroup comes after it, never before.
func TestLeave_WaitsForTheDrain(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a")
		a.drain = func(ctx context.Context) {
			<-ctx.Done()
			if n := g.members(); n != 1 {
				t.Errorf("left the group while draining")
			}
		}
		a.start()
		g.within(time.Second, "a owns all", g.settled(a))
		if took := a.stop(); took < g.times.Drain || took > g.times.Drain+100*time.Millisecond || a.err != nil {
			t.Errorf("took %v: %v", took, a.err)
		}
		if n := g.members(); n != 0 {
			t.Errorf("%d members are left", n)
		}
	})
}

// A handler that breaks its promise must not hold up the exit for ever.
func TestLeave_HandlerThatDoesNotReturn(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a")
		a.drain = func(context.Context) { time.Sleep(time.Minute) }
		a.start()
		g.within(time.Second, "a owns all", g.settled(a))
		if took := a.stop(); took > g.times.Drain+g.times.Leave || !errors.Is(a.err, ErrLeftBehind) {
			t.Errorf("took %v: %v", took, a.err)
		}
		time.Sleep(2 * time.Minute) // what was left behind ends too
	})
}

// A member that rejoins waits at the broker for another one that drains (kafka-go#1248).
func TestLeave_JoinGroupOfAKnownMemberIsParked(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a")
		b := g.node("b")
		b.drain = once(3 * time.Second)
		a.start()
		g.within(time.Second, "a owns all", g.settled(a))
		b.start()
		g.within(2*time.Second, "two share", g.settled(a, b))
		a.generation().Rejoin(errors.New("test"))
		time.Sleep(500 * time.Millisecond) // b drains, a's JoinGroup waits for b
		if a.generation() != nil || b.generation() != nil {
			t.Fatal("nothing is parked")
		}
		if took := a.stop(); took > stopLimit || a.err != nil {
			t.Errorf("took %v: %v", took, a.err)
		}
		// LeaveGroup was sent: b does not wait for a ghost.
		g.within(3*time.Second, "b owns all", g.settled(b))
	})
}

// The first JoinGroup: nobody knows the member id yet, so a ghost is left and may be given shards. A real
// coordinator misses its SyncGroup after the rebalance timeout; kfake forgets to, and drops it with the next
// rebalance.
func TestLeave_FirstJoinGroupIsParked(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		b := g.node("b")
		b.drain = once(3 * time.Second)
		b.start()
		g.within(time.Second, "b owns all", g.settled(b))
		a := g.node("a").start()
		time.Sleep(500 * time.Millisecond)
		if took := a.stop(); took > stopLimit || a.err != nil {
			t.Errorf("took %v: %v", took, a.err)
		}
		g.within(4*time.Second, "b has a generation", func() bool { return b.generation() != nil })
		c := g.node("c").start()
		took := g.within(g.times.Rebalance+time.Second, "b and c share", g.settled(b, c))
		t.Logf("without the ghost's shards: %v", took)
	})
}

// The same instance, started again at once: its ghost gets nothing, although it is still in the group.
func TestLeave_GhostOfOnesOwnHoldsNothing(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		b := g.node("b")
		b.drain = once(3 * time.Second)
		b.start()
		g.within(time.Second, "b owns all", g.settled(b))
		ghost := g.node("a").start()
		time.Sleep(500 * time.Millisecond)
		ghost.stop()
		a := g.node("a").start()
		took := g.within(4*time.Second, "a and b share, beside the ghost", g.settled(a, b))
		t.Logf("took %v with %d members", took, g.members())
	})
}

// Each request of the group in turn gets no answer, on a stop at that moment.
func TestLeave_BrokerKeepsARequest(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.Heartbeat, kmsg.LeaveGroup} {
		t.Run(key.Name(), func(t *testing.T) {
			inTime(t, 12, func(t *testing.T, g *group) {
				a := g.node("a")
				swallow := a.link.Arm(kafkatest.Rule{Action: kafkatest.Swallow, Key: key.Int16(), Count: -1})
				a.start()
				time.Sleep(500 * time.Millisecond)
				if took := a.stop(); took > stopLimit || a.err != nil {
					t.Errorf("took %v: %v", took, a.err)
				}
				if swallow.Hits() == 0 {
					t.Error("nothing was parked")
				}
				if n := a.link.Conns(); n != 0 {
					t.Errorf("%d connections are left", n)
				}
			})
		})
	}
}

func TestLeave_BrokerIsGone(t *testing.T) {
	for _, how := range []string{"refuses", "silent"} {
		for _, since := range []time.Duration{0, 100 * time.Millisecond, 700 * time.Millisecond, 1300 * time.Millisecond, 2500 * time.Millisecond, 10 * time.Second, 11 * time.Second} {
			t.Run(how+" for "+since.String(), func(t *testing.T) {
				inTime(t, 12, func(t *testing.T, g *group) {
					a := g.node("a").start()
					g.within(time.Second, "a owns all", g.settled(a))
					for _, l := range []*kafkatest.Link{a.link, a.beats} {
						if how == "silent" {
							l.Silence()
						} else {
							l.Cut()
						}
					}
					time.Sleep(since)
					if took := a.stop(); took > stopLimit || a.err != nil {
						t.Errorf("took %v: %v", took, a.err)
					}
					if n := a.link.Conns(); n != 0 {
						t.Errorf("%d connections are left", n)
					}
				})
			})
		}
	}
}

// SIGTERM at any moment of a rebalance: the exit is bounded, and the others own everything soon.
func TestLeave_AtAnyMomentOfARebalance(t *testing.T) {
	for phase := time.Duration(0); phase <= 600*time.Millisecond; phase += 25 * time.Millisecond {
		t.Run(phase.String(), func(t *testing.T) {
			inTime(t, 12, func(t *testing.T, g *group) {
				// Answers take a while, so that every request is caught on its way by some phase.
				slow := func(n *node) *node {
					for _, key := range []kmsg.Key{kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.LeaveGroup} {
						n.link.Arm(kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: key.Int16(), Count: -1, Delay: 40 * time.Millisecond})
					}
					return n
				}
				a, b := slow(g.node("a")).start(), slow(g.node("b")).start()
				g.within(5*time.Second, "two share", g.settled(a, b))
				c := slow(g.node("c")).start()
				time.Sleep(phase)
				if took := b.stop(); took > stopLimit || b.err != nil {
					t.Errorf("took %v: %v", took, b.err)
				}
				took := g.within(3*time.Second, "the others share", g.settled(a, c))
				t.Logf("the others share after %v", took)
			})
		})
	}
}

// A process is killed while its first JoinGroup is parked: the group keeps a member that nobody is. Until it is
// dropped its shards have no owner, for as long as the coordinator waits for a member that it has heard of once.
func TestLeave_KilledWhileTheFirstJoinGroupIsParked(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		b := g.node("b")
		b.drain = once(3 * time.Second)
		b.start()
		g.within(time.Second, "b owns all", g.settled(b))
		a := g.node("a").start()
		g.within(time.Second, "the JoinGroup is parked", func() bool { return b.generation() == nil })
		a.kill()
		took := g.within(3*time.Second+g.times.Session+2*g.times.Rebalance, "b owns all again", g.settled(b))
		t.Logf("b owns all again after %v", took)
	})
}
