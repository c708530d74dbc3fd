package membership

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// A session that is shorter than a drain, or than the wait for a slow member, does not run out meanwhile.
func TestSeat_SessionDoesNotRunOutBetweenGenerations(t *testing.T) {
	times := DefaultTimeouts()
	times.Session = 1800 * time.Millisecond
	inTimeOf(t, "short session", times, func(t *testing.T, g *group) {
		a, b := g.node("a"), g.node("b")
		a.start()
		g.within(time.Second, "a owns all", g.settled(a))
		b.start()
		g.within(2*time.Second, "two share", g.settled(a, b))
		first := []string{a.generation().MemberID, b.generation().MemberID}
		b.mu.Lock()
		b.drain = once(3 * time.Second) // too long, but within the rebalance timeout
		b.mu.Unlock()
		c := g.node("c").start() // parks
		g.within(5*time.Second, "three share", g.settled(a, b, c))
		if second := []string{a.generation().MemberID, b.generation().MemberID}; first[0] != second[0] || first[1] != second[1] {
			t.Errorf("members %v became %v", first, second)
		}
	})
}

// A JoinGroup that does not get there keeps the shards without an owner, in a group that waits for nobody.
func TestSeat_LostJoinGroupIsNoticed(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a, b := g.node("a").start(), g.node("b").start()
		g.within(3*time.Second, "two share", g.settled(a, b))
		lost := a.link.Arm(kafkatest.Rule{Action: kafkatest.Swallow, Key: kmsg.JoinGroup.Int16()})
		a.generation().Rejoin(errors.New("test"))
		took := g.within(3*time.Second, "two share again", g.settled(a, b))
		t.Logf("took %v", took)
		if lost.Hits() != 1 {
			t.Errorf("%d requests were lost", lost.Hits())
		}
	})
}

// The coordinator forgets a member while its JoinGroup is parked, and never answers it.
func TestSeat_MemberThatIsForgottenWhileItWaitsComesBack(t *testing.T) {
	inTime(t, 12, func(t *testing.T, g *group) {
		a, b := g.node("a"), g.node("b")
		b.drain = once(3500 * time.Millisecond)
		a.start()
		g.within(time.Second, "a owns all", g.settled(a))
		b.start()
		g.within(2*time.Second, "two share", g.settled(a, b))
		member := a.generation().MemberID
		a.generation().Rejoin(errors.New("test"))
		time.Sleep(500 * time.Millisecond)
		admin := &wire{dial: g.cluster.Dial, addr: g.cluster.Addrs()[0]}
		defer admin.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := admin.LeaveGroup(ctx, testGroup, member); err != nil {
			t.Fatal(err)
		}
		took := g.within(6*time.Second, "two share again", g.settled(a, b))
		t.Logf("took %v", took)
	})
}
