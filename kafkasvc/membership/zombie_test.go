package membership

import (
	"fmt"
	"testing"
	"time"

	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// The coordinator's connections of an owner go silent, half open: it hears of nothing. Whatever the moment, its
// lease has lapsed before its shards can have a new owner (board.assigned checks that), and nothing of the old
// generation comes back when the link heals.
func TestZombie_LeaseLapsesBeforeThereIsANewOwner(t *testing.T) {
	smallest := DefaultTimeouts()
	smallest.Session, smallest.Rebalance = 1701*time.Millisecond, 1701*time.Millisecond
	shortRebalance := DefaultTimeouts()
	shortRebalance.Rebalance = 1701 * time.Millisecond
	shortSession := DefaultTimeouts()
	shortSession.Session = 1701 * time.Millisecond
	slowHeartbeat := DefaultTimeouts()
	slowHeartbeat.Heartbeat = 900 * time.Millisecond // kfake begins the rebalance timeout anew with each rejoin; above the rpc timeout, others would give up

	for _, tt := range []struct {
		name  string
		times Timeouts
	}{
		{"default", DefaultTimeouts()},
		{"smallest", smallest},
		{"short rebalance", shortRebalance},
		{"short session", shortSession},
		{"slow heartbeat", slowHeartbeat},
	} {
		if err := tt.times.Validate(); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		t.Run(tt.name, func(t *testing.T) {
			smallest := time.Hour
			for _, cut := range []string{"both", "group", "heartbeats"} {
				for _, event := range []string{"nothing", "join", "leave"} {
					for phase := range 12 {
						name := fmt.Sprintf("%s, %s, phase %d", cut, event, phase)
						inTimeOf(t, name, tt.times, func(t *testing.T, g *group) {
							margin := zombie(t, g, cut, event, time.Duration(phase)*g.times.Heartbeat/12)
							if cut == "both" { // else it may have left in good order
								smallest = min(smallest, margin)
							}
						})
					}
				}
			}
			// Not even a lease that nothing but its clock ended would have met the next owner.
			t.Logf("smallest margin between what a heartbeat is worth and the next owner: %v", smallest)
			if smallest < tt.times.Margin || smallest == time.Hour {
				t.Errorf("smallest margin %v, promised %v", smallest, tt.times.Margin)
			}
		})
	}
}

// inTimeOf is a subtest with times of its own.
func inTimeOf(t *testing.T, name string, times Timeouts, body func(t *testing.T, g *group)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		inTime(t, 12, func(t *testing.T, g *group) {
			g.times = times
			body(t, g)
		})
	})
}

func zombie(t *testing.T, g *group, cut, event string, phase time.Duration) time.Duration {
	a, b := g.node("a").start(), g.node("b").start()
	var c *node
	g.within(15*time.Second, "two share", g.settled(a, b))
	if event == "leave" {
		c = g.node("c").start()
		g.within(15*time.Second, "three share", g.settled(a, b, c))
	}
	time.Sleep(phase)
	old := a.generation()
	if old == nil {
		t.Fatal("no generation")
	}
	if cut != "heartbeats" {
		a.link.Silence()
	}
	if cut != "group" {
		a.beats.Silence()
	}
	switch event {
	case "join":
		c = g.node("c").start()
	case "leave":
		c.stop()
		c = nil
	}
	others := []*node{b}
	if c != nil {
		others = append(others, c)
	}
	limit := g.times.Session + 2*g.times.Rebalance + 2*time.Second
	if cut == "heartbeats" {
		// kafka-go's own heartbeats keep the membership: the group may well stay as it is.
		time.Sleep(limit)
	} else {
		g.within(limit, "the others own all", g.settled(others...))
	}
	if old.Lease.Valid() {
		t.Error("the old lease is valid")
	}
	for _, l := range []*kafkatest.Link{a.link, a.beats} {
		l.Heal()
	}
	all := append(others, a)
	g.within(limit+10*time.Second, "all share", g.settled(all...))
	if cut != "heartbeats" && old.Lease.Valid() {
		t.Error("the old lease came back")
	}
	g.board.mu.Lock()
	defer g.board.mu.Unlock()
	return g.board.margin[old]
}
