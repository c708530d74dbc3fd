package membership

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// inTime runs a test in fake time with a cluster of one broker.
func inTime(t *testing.T, shards int, body func(t *testing.T, g *group), opts ...kfake.Opt) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		body(t, newGroup(t, kafkatest.Start(t, opts...), shards))
	})
}

func TestMembership_JoinLeaveKill(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a").start()
		g.within(time.Second, "a owns all", g.settled(a))
		b := g.node("b").start()
		g.within(2*time.Second, "a and b share", g.settled(a, b))
		c := g.node("c").start()
		g.within(2*time.Second, "three share", g.settled(a, b, c))

		before := slices.Clone(a.shards())
		if took := b.stop(); took > 500*time.Millisecond {
			t.Errorf("a stop without work took %v", took)
		}
		if b.err != nil {
			t.Errorf("stop: %v", b.err)
		}
		took := g.within(time.Second, "two share after a graceful leave", g.settled(a, c))
		t.Logf("a graceful leave: %v", took)
		for _, s := range before {
			if !slices.Contains(a.shards(), s) {
				t.Errorf("shard %d moved away from a, who stayed", s)
			}
		}

		c.kill()
		took = g.within(7*time.Second, "a owns all after a kill", g.settled(a))
		t.Logf("a kill: %v", took)
		if took < g.times.Session-g.times.Heartbeat {
			t.Errorf("shards moved after %v, a session is %v", took, g.times.Session)
		}
	})
}

// kafka-go#200, #995 of franz-go: spares must not make the group rebalance.
func TestMembership_MoreMembersThanShardsIsStable(t *testing.T) {
	inTime(t, 4, func(t *testing.T, g *group) {
		var nodes []*node
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			nodes = append(nodes, g.node(name).start())
		}
		g.within(5*time.Second, "all six have a generation", func() bool {
			n := 0
			for _, x := range nodes {
				if x.generation() == nil {
					return false
				}
				n += len(x.shards())
			}
			return n == 4
		})
		time.Sleep(time.Second)
		var before, spares int
		for _, x := range nodes {
			before += x.generations()
			if len(x.shards()) == 0 {
				spares++
			}
		}
		if spares != 2 {
			t.Errorf("%d spares", spares)
		}
		time.Sleep(5 * time.Minute)
		after := 0
		for _, x := range nodes {
			after += x.generations()
		}
		if after != before {
			t.Errorf("%d generations began in 5 quiet minutes", after-before)
		}
		owner := nodes[slices.IndexFunc(nodes, func(n *node) bool { return len(n.shards()) == 1 })]
		owner.stop()
		g.within(2*time.Second, "a spare takes over", func() bool {
			n := 0
			for _, x := range nodes {
				n += len(x.shards())
			}
			return n == 4
		})
	})
}

func TestMembership_RejoinGetsTheSameShards(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a").start()
		g.within(time.Second, "a owns all", g.settled(a))
		b := g.node("b").start()
		g.within(2*time.Second, "two share", g.settled(a, b))
		for _, n := range []*node{a, b} { // the leader and a follower
			before := n.generation()
			why := errors.New("fenced")
			before.Rejoin(why)
			if before.Lease.Valid() {
				t.Errorf("%s: the lease goes on after Rejoin", n.name)
			}
			g.within(2*time.Second, "both share again", func() bool { return n.generation() != before && g.settled(a, b)() })
			if after := n.generation(); !slices.Equal(after.Shards, before.Shards) || after.MemberID != before.MemberID {
				t.Errorf("%s had %v and has %v", n.name, before.Shards, after.Shards)
			}
			if !errors.Is(before.Lease.Err(), why) {
				t.Errorf("%s: ended with %v", n.name, before.Lease.Err())
			}
		}
	})
}

func TestMembership_RestartedInstanceGetsItsShardsBack(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		nodes := map[string]*node{}
		all := func() []*node { return []*node{nodes["a"], nodes["b"], nodes["c"]} }
		for _, name := range []string{"a", "b", "c"} {
			nodes[name] = g.node(name).start()
		}
		g.within(3*time.Second, "three share", func() bool { return g.settled(all()...)() })
		for _, name := range []string{"b", "a", "c"} {
			before := slices.Clone(nodes[name].shards())
			nodes[name].stop()
			time.Sleep(2 * time.Second)
			nodes[name] = g.node(name).start()
			g.within(3*time.Second, "three share again", func() bool { return g.settled(all()...)() })
			after := nodes[name].shards()
			same := 0
			for _, s := range after {
				if slices.Contains(before, s) {
					same++
				}
			}
			if same != len(after) {
				t.Errorf("%s had %v and has %v", name, before, after)
			}
		}
	})
}

// A killed process and its successor, started at once: only the ghost's share of time is lost, no shard is
// left with the ghost for a session.
func TestMembership_KillAndRestartAtOnce(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a").start()
		b := g.node("b").start()
		g.within(3*time.Second, "two share", g.settled(a, b))
		b.kill()
		b2 := g.node("b").start()
		took := g.within(g.times.Rebalance+time.Second, "the successor serves", g.settled(a, b2))
		t.Logf("took %v", took)
	})
}

// A coordinator that says "unknown member": the gate locks within a heartbeat, a new member joins.
func TestMembership_EvictedMemberLocksAtOnceAndComesBack(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a").start()
		g.within(time.Second, "a owns all", g.settled(a))
		gen := a.generation()
		admin := &wire{dial: g.cluster.Dial, addr: g.cluster.Addrs()[0]}
		defer admin.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := admin.LeaveGroup(ctx, testGroup, gen.MemberID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(g.times.Heartbeat + 10*time.Millisecond)
		if gen.Lease.Valid() {
			t.Error("the lease outlived a heartbeat that told of the eviction")
		}
		g.within(2*time.Second, "a owns all again", g.settled(a))
		if a.generation().MemberID == gen.MemberID {
			t.Error("it came back under the old member id")
		}
	})
}

// sarama#1608: teardown that is too slow costs the membership, never two owners.
func TestMembership_HandlerThatDrainsForTooLongIsEvictedAndRecovers(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a")
		var once sync.Once
		drained := false
		a.drain = func(ctx context.Context) {
			once.Do(func() {
				<-ctx.Done()
				time.Sleep(8*time.Second - g.times.Drain)
				drained = true
			})
		}
		a.start()
		g.within(time.Second, "a owns all", g.settled(a))
		b := g.node("b").start()
		g.within(8*time.Second, "b owns all while a drains", g.settled(b))
		g.within(20*time.Second, "both share in the end", g.settled(a, b))
		if !drained {
			t.Error("a never drained")
		}
	})
}

// The lease may see the rebalance before kafka-go does: then the generation ends by it.
func TestMembership_OwnHeartbeatEndsTheGeneration(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a").start()
		g.within(time.Second, "a owns all", g.settled(a))
		for _, code := range []*kerr.Error{kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.UnknownMemberID} {
			gen := a.generation()
			fault := g.cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Heartbeat}, Group: testGroup, Err: code, TopLevel: true, Count: 1,
				When: func(r kmsg.Request) bool { return r.GetVersion() == 3 }, // the lease's own; kafka-go asks with 0
			})
			g.within(2*time.Second, "another generation", func() bool { return a.generation() != nil && a.generation() != gen })
			if fault.Hits() != 1 || !errors.Is(gen.Lease.Err(), kafka.Error(code.Code)) {
				t.Errorf("%v: %d hits, the lease ended with %v", code, fault.Hits(), gen.Lease.Err())
			}
		}
	})
}

// A coordinator that takes the member in and disowns it at once, for ever: no storm of rebalances.
func TestMembership_DoesNotSpinOnShortGenerations(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		g.cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Heartbeat}, Group: testGroup, Err: kerr.UnknownMemberID, TopLevel: true, Count: -1,
			When: func(r kmsg.Request) bool { return r.GetVersion() == 3 },
		})
		a := g.node("a").start()
		time.Sleep(time.Minute)
		n := g.cluster.Requests(kmsg.JoinGroup.Int16(), "")
		if n < 20 || n > 80 {
			t.Errorf("joined %d times in a minute", n)
		}
		if s := a.m.Status(); s.Reason == nil || !errors.Is(s.Reason, ErrEvicted) {
			t.Errorf("reason %v", s.Reason)
		}
		if took := a.stop(); took > stopLimit || a.err != nil {
			t.Errorf("took %v: %v", took, a.err)
		}
	})
	inTime(t, 12, func(t *testing.T, g *group) {
		refuse := g.cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.SyncGroup}, Group: testGroup, Err: kerr.RebalanceInProgress, TopLevel: true, Count: -1,
		})
		a := g.node("a").start()
		time.Sleep(time.Minute)
		n := g.cluster.Requests(kmsg.JoinGroup.Int16(), "")
		if n < 20 || n > 150 {
			t.Errorf("joined %d times in a minute", n)
		}
		refuse.Remove()
		g.within(10*time.Second, "a owns all", g.settled(a))
		if s := a.m.Status(); s.Reason != nil {
			t.Errorf("when it is well: %+v", s)
		}
	})
}

// A coordinator that has no time for our heartbeats says nothing about the group.
func TestMembership_HeartbeatsThatFailForAWhileDoNotEndTheGeneration(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a").start()
		g.within(time.Second, "a owns all", g.settled(a))
		gen := a.generation()
		a.beats.Cut()
		lapsed := gen.Lease.Lapsed()
		time.Sleep(g.times.Term() - g.times.Heartbeat - 50*time.Millisecond)
		if !gen.Lease.Valid() {
			t.Error("lapsed before its time")
		}
		<-lapsed
		time.Sleep(10 * time.Second) // kafka-go's own heartbeats keep the membership
		if a.generation() != gen || gen.Lease.Valid() || gen.Lease.Err() != nil {
			t.Errorf("generation %p, was %p; lease: valid %v, %v", a.generation(), gen, gen.Lease.Valid(), gen.Lease.Err())
		}
		if s := a.m.Status(); s.Lapses != 1 || s.Reason == nil || !strings.Contains(s.Reason.Error(), "heartbeats in a row got no answer") {
			t.Errorf("while lapsed: %+v", s)
		}
		a.beats.Heal()
		g.within(time.Second, "the lease heals", gen.Lease.Valid)
		if a.generation() != gen {
			t.Error("the generation did not survive")
		}
		if s := a.m.Status(); s.Reason != nil {
			t.Errorf("when healed: %+v", s)
		}
	})
}

func TestMembership_AssignedOnlyWithALease(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a")
		a.beats.Cut()
		a.start()
		time.Sleep(5 * time.Second)
		if a.generations() != 0 {
			t.Error("assigned without a heartbeat")
		}
		if s := a.m.Status(); s.Reason == nil {
			t.Errorf("no reason: %+v", s)
		}
		a.beats.Heal()
		g.within(time.Second, "a owns all", g.settled(a))
		a.stop()

		b := g.node("b")
		b.beats.Cut()
		b.start()
		time.Sleep(time.Second)
		if took := b.stop(); took > time.Second {
			t.Errorf("a stop without a lease took %v", took)
		}
	})
}

// kafka-go#387, #955: the broker goes away and comes back.
func TestMembership_ComesBackAfterTheBroker(t *testing.T) {
	for _, away := range []time.Duration{300 * time.Millisecond, 5 * time.Second, time.Minute} {
		for _, how := range []string{"refuses", "silent", "cuts once"} {
			t.Run(how+" for "+away.String(), func(t *testing.T) {
				inTime(t, 12, func(t *testing.T, g *group) {
					a, b := g.node("a").start(), g.node("b").start()
					g.within(3*time.Second, "two share", g.settled(a, b))
					for _, n := range []*node{a, b} {
						for _, l := range []*kafkatest.Link{n.link, n.beats} {
							switch how {
							case "refuses":
								l.Cut()
							case "silent":
								l.Silence()
							case "cuts once":
								l.CloseConns()
							}
						}
					}
					time.Sleep(away)
					if how != "cuts once" && away > g.times.Term() && (len(a.shards()) > 0 || len(b.shards()) > 0) {
						t.Error("somebody serves without a coordinator")
					}
					for _, n := range []*node{a, b} {
						n.link.Heal()
						n.beats.Heal()
					}
					took := g.within(10*time.Second, "two share again", g.settled(a, b))
					t.Logf("took %v; failures %d, %d", took, a.m.Status().AllFailures, b.m.Status().AllFailures)
					if n := a.m.Status().AllFailures; n > int(away/time.Second)+6 {
						t.Errorf("%d attempts in %v", n, away)
					}
				})
			})
		}
	}
}

func TestMembership_StartsBeforeTheBroker(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a")
		a.link.Cut()
		a.start()
		time.Sleep(30 * time.Second)
		s := a.m.Status()
		if s.Failures < 10 || s.Failures > 40 || s.Reason == nil || !strings.Contains(s.Reason.Error(), "connection refused") {
			t.Errorf("after 30 s: %+v", s)
		}
		a.link.Heal()
		g.within(3*time.Second, "a owns all", g.settled(a))
		if s := a.m.Status(); s.Failures != 0 || s.Reason != nil || s.Shards != 12 || s.Generation == 0 || s.Generations != 1 {
			t.Errorf("when it is well: %+v", s)
		}
	})
}

func TestMembership_SaysWhyItCannotJoin(t *testing.T) {
	for _, tt := range []struct {
		name   string
		opts   []kfake.Opt
		before func(g *group)
		change func(*Config)
		want   string
		code   error
	}{
		{
			name: "wrong password",
			opts: []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", "user", "right")},
			change: func(c *Config) {
				c.SASL = plain.Mechanism{Username: "user", Password: "wrong"}
			},
			want: "refuses the user name or password",
			code: kafka.SASLAuthenticationFailed,
		},
		{
			name: "session timeout outside the broker's limits",
			opts: []kfake.Opt{kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": "10000"})},
			want: "the broker refuses a session timeout of 6s: choose one within its group.min.session.timeout.ms",
			code: kafka.InvalidSessionTimeout,
		},
		{
			name: "no permission",
			before: func(g *group) {
				g.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, TopLevel: true, Count: -1})
			},
			want: `allows this user no READ on group "chathome"`,
			code: kafka.GroupAuthorizationFailed,
		},
		{
			name: "another program's group",
			before: func(g *group) {
				cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
					ID: testGroup, Brokers: g.cluster.Addrs(), Topics: []string{testTopic},
					Dialer: &kafka.Dialer{DialFunc: g.cluster.Dial},
				})
				if err != nil {
					g.t.Fatal(err)
				}
				g.t.Cleanup(func() { cg.Close() })
				if _, err := cg.Next(g.t.Context()); err != nil {
					g.t.Fatal(err)
				}
			},
			want: `group "chathome" has members of another program`,
			code: kafka.InconsistentGroupProtocol,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inTime(t, 12, func(t *testing.T, g *group) {
				if tt.before != nil {
					tt.before(g)
				}
				g.change = tt.change
				a := g.node("a").start()
				time.Sleep(time.Minute)
				s := a.m.Status()
				if s.Failures < 25 || s.Failures > 60 {
					t.Errorf("%d attempts in a minute", s.Failures)
				}
				if s.Reason == nil || !strings.Contains(s.Reason.Error(), tt.want) || !errors.Is(s.Reason, tt.code) {
					t.Errorf("reason %v", s.Reason)
				}
				if took := a.stop(); took > 1500*time.Millisecond || a.err != nil {
					t.Errorf("stop took %v: %v", took, a.err)
				}
			}, tt.opts...)
		})
	}
}

// A program that knows our protocol's name and nothing else.
func TestMembership_ForeignMemberGetsNothingAndRaisesAnAlarm(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a := g.node("a").start()
		g.within(time.Second, "a owns all", g.settled(a))
		foreign := &balancer{topic: testTopic, shards: 12, userData: []byte("I am somebody"), alarm: func(Alarm) {}}
		cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
			ID: testGroup, Brokers: g.cluster.Addrs(), Topics: []string{testTopic},
			Dialer:         &kafka.Dialer{DialFunc: g.cluster.Dial},
			GroupBalancers: []kafka.GroupBalancer{foreign},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer cg.Close()
		gen, err := cg.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := len(gen.Assignments[testTopic]); n != 0 {
			t.Errorf("the foreign member has %d shards", n)
		}
		g.within(time.Second, "a owns all", g.settled(a))
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.alarms) == 0 || a.alarms[0].Kind != AlarmForeignMember {
			t.Errorf("alarms %v", a.alarms)
		}
	})
}

// A missing or short topic must not lead to an empty assignment for ever (kafka-go#800): the count is pinned.
func TestMembership_TopicWithoutPartitionsIsAssignedByThePinnedCount(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		if err := g.cluster.DeleteTopic(testTopic); err != nil {
			t.Fatal(err)
		}
		a := g.node("a").start()
		g.within(time.Second, "a owns all", g.settled(a))
	})
}

func TestNew_NamesEveryFault(t *testing.T) {
	_, err := New(Config{}, nil)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"no brokers", "no group id", "no topic", "shard count 0", "instance id", "no coordinator", "session timeout"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not name %q", err, want)
		}
	}
	_, err = New(Config{
		Brokers: []string{"a:1"}, Group: "g", Topic: "t", Shards: 1, Timeouts: DefaultTimeouts(),
		Instance: strings.Repeat("x", MaxInstanceBytes+1), Coordinator: &wire{},
	}, nil)
	if err == nil || !strings.Contains(err.Error(), "instance id") {
		t.Errorf("got %v", err)
	}
}

func TestExplain_KeepsWhatItDoesNotKnow(t *testing.T) {
	for _, err := range []error{io.EOF, kafka.NotCoordinatorForGroup} {
		if got := explain(err, Config{}); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}
