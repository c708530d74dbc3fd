package membership

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

var _ Coordinator = (*kafkalog.Cluster)(nil)

// wired is a group on three brokers whose leases ask as they do in production.
func wired(t *testing.T, body func(t *testing.T, g *group)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		g := newGroup(t, kafkatest.Start(t, kfake.Ports(9092, 9093, 9094)), 12)
		g.change = func(cfg *Config) {
			c := kafkalog.New(kafkalog.Config{Brokers: cfg.Brokers, Dial: cfg.Dial, ClientID: cfg.ClientID})
			t.Cleanup(func() { c.Close() })
			cfg.Coordinator = c
		}
		body(t, g)
	})
}

func TestWired_CoordinatorMoves(t *testing.T) {
	wired(t, func(t *testing.T, g *group) {
		a, b := g.node("a").start(), g.node("b").start()
		g.within(3*time.Second, "two share", g.settled(a, b))
		for range 10 {
			before := g.cluster.CoordinatorFor(testGroup)
			old := a.generation()
			g.cluster.RehashCoordinators()
			if g.cluster.CoordinatorFor(testGroup) == before {
				continue
			}
			took := g.within(10*time.Second, "two share in a new generation", func() bool {
				return a.generation() != old && g.settled(a, b)()
			})
			t.Logf("coordinator %d, then %d: two share after %v", before, g.cluster.CoordinatorFor(testGroup), took)
			time.Sleep(time.Second)
		}
		if took := a.stop(); took > stopLimit || a.err != nil {
			t.Errorf("took %v: %v", took, a.err)
		}
		g.within(3*time.Second, "b owns all", g.settled(b))
	})
}

// The broker that coordinates goes away for good; the group is lost with it, as with a broker whose
// replacement starts afresh.
func TestWired_CoordinatorDies(t *testing.T) {
	wired(t, func(t *testing.T, g *group) {
		a, b := g.node("a").start(), g.node("b").start()
		g.within(3*time.Second, "two share", g.settled(a, b))
		old := a.generation()
		if err := g.cluster.RemoveNode(g.cluster.CoordinatorFor(testGroup)); err != nil {
			t.Fatal(err)
		}
		took := g.within(15*time.Second, "two share in a new generation", func() bool {
			return a.generation() != old && g.settled(a, b)()
		})
		t.Logf("two share after %v", took)
	})
}

func TestWired_ParkedJoinGroupAtStop(t *testing.T) {
	wired(t, func(t *testing.T, g *group) {
		a := g.node("a")
		b := g.node("b")
		b.drain = once(3 * time.Second)
		a.start()
		g.within(time.Second, "a owns all", g.settled(a))
		b.start()
		g.within(2*time.Second, "two share", g.settled(a, b))
		a.generation().Rejoin(ErrRebalance)
		time.Sleep(500 * time.Millisecond)
		if took := a.stop(); took > stopLimit || a.err != nil {
			t.Errorf("took %v: %v", took, a.err)
		}
		g.within(3*time.Second, "b owns all", g.settled(b))
	})
}
