package fanout

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/internal/bubbletest"
)

// inBubble runs a test in fake time and checks that nothing stays.
func inBubble(t *testing.T, cfg Config, f func(h *house)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		h := newHouse(t, cfg)
		f(h)
		synctest.Wait()
		h.empty()
	})
}

func (h *house) crowd(n int, options ...any) ([]*sink, func()) {
	h.t.Helper()
	sinks, subs := make([]*sink, n), make([]*Subscription, n)
	for i := range sinks {
		sinks[i] = &sink{}
		subs[i] = h.subscribe(sinks[i], plainDocument, options...)
	}
	synctest.Wait()
	return sinks, func() {
		for _, s := range subs {
			s.Stop()
		}
	}
}

func TestSharing_OneExecutionForAThousandSubscribers(t *testing.T) {
	inBubble(t, Config{LaneSize: 300}, func(h *house) {
		sinks, stop := h.crowd(1000, "last", 0)
		defer stop()
		before := h.seen.executed.Load()
		if before > 4 {
			h.t.Errorf("%d executions for the first event", before)
		}
		const commits = 10
		for range commits {
			h.home.PostN(h.room.ID, 3)
			synctest.Wait()
		}
		if n := h.seen.executed.Load() - before; n != commits {
			h.t.Errorf("%d executions for %d group commits", n, commits)
		}
		first := sinks[0].events()
		serials(h.t, first, 1, 3*commits)
		for _, s := range sinks {
			events := s.events()
			if len(events) != 1+commits {
				h.t.Fatalf("%d events", len(events))
			}
			if s.overlap {
				h.t.Error("calls of a sink overlap")
			}
			for i := range events {
				if &events[i][0] != &first[i][0] {
					h.t.Fatalf("event %d was encoded more than once", i)
				}
			}
		}
	})
}

func TestSharing_SlowMemberGetsOneLargerEventAndKeepsNobodyWaiting(t *testing.T) {
	inBubble(t, Config{}, func(h *house) {
		sinks, stop := h.crowd(3, "last", 0)
		defer stop()
		slow := sinks[1]
		slow.setSlow()
		for range 20 {
			h.home.PostN(h.room.ID, 2)
			synctest.Wait()
		}
		if n := len(sinks[0].events()); n != 21 {
			h.t.Errorf("others have %d events, want 21", n)
		}
		if n := len(slow.events()); n != 2 {
			h.t.Errorf("the slow one has %d events, want the first and the one that is pending", n)
		}
		slow.release()
		synctest.Wait()
		events := slow.events()
		serials(h.t, events, 1, 40)
		if len(events) > 4 {
			h.t.Errorf("%d events for what was missed", len(events)-2)
		}
		if slow.overlap {
			h.t.Error("calls of a sink overlap")
		}
		if n := h.seen.behind.Load(); n < 30 {
			h.t.Errorf("it was seen %d messages behind", n)
		}
		if n := h.hub.Subscriptions(); n != 3 {
			h.t.Errorf("%d subscriptions", n)
		}
	})
}

func TestSharing_CrowdResumesFromManyCursors(t *testing.T) {
	const messages, readers = 640, 64
	inBubble(t, Config{RingBytes: 8 << 20}, func(h *house) {
		h.home.PostN(h.room.ID, messages)
		sinks, subs := make([]*sink, readers), make([]*Subscription, readers)
		for i := range sinks {
			sinks[i] = &sink{}
			subs[i] = h.subscribe(sinks[i], plainDocument, "after", h.cursorAt(domain.Serial(i*messages/readers)))
			defer subs[i].Stop()
		}
		synctest.Wait()
		for i, s := range sinks {
			serials(h.t, s.events(), i*messages/readers+1, messages)
			last := parse(h.t, s.events()[len(s.events())-1])
			if !last.Data.Messages.Live {
				h.t.Errorf("reader %d is not live", i)
			}
		}
		// Each needs one event of its own to the next multiple of 64; from there on all share.
		if n := h.seen.executed.Load(); n > readers+60 {
			h.t.Errorf("%d executions for %d readers", n, readers)
		}
	})
}

// Whoever becomes ready while a large room is served, on the only processor, runs before that is over.
func TestSharing_LargeRoomLetsOthersGoFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	inBubble(t, Config{}, func(h *house) {
		sinks, stop := h.crowd(4*breath, "last", 0)
		defer stop()
		var other atomic.Bool
		var served, before atomic.Int32
		for _, s := range sinks {
			s.onEvent = func([]byte) {
				if served.Add(1) == 1 {
					go other.Store(true)
				}
				if !other.Load() {
					before.Add(1)
				}
			}
		}
		h.home.PostN(h.room.ID, 1)
		synctest.Wait()
		if served.Load() != 4*breath || before.Load() > 2*breath {
			h.t.Errorf("%d of %d were served first", before.Load(), served.Load())
		}
	})
}

// Those who come back take turns, and nobody waits for somebody's client.
func TestCatchUp_TakesTurnsThatNoSlowClientHolds(t *testing.T) {
	const messages, readers = 640, 8
	inBubble(t, Config{CatchUps: 1, RingBytes: 8 << 20}, func(h *house) {
		h.home.PostN(h.room.ID, messages)
		var atWork, most atomic.Int32
		sinks := make([]*sink, readers)
		for i := range sinks {
			sinks[i] = &sink{onEvent: func([]byte) {
				n := atWork.Add(1)
				time.Sleep(time.Millisecond) // let all others run, if they may
				most.Store(max(most.Load(), n))
				atWork.Add(-1)
			}}
		}
		sinks[0].setSlow()
		for i, s := range sinks {
			defer h.subscribe(s, plainDocument, "after", h.cursorAt(domain.Serial(i+1))).Stop()
		}
		time.Sleep(time.Second)
		for i, s := range sinks[1:] {
			serials(h.t, s.events(), i+3, messages)
		}
		if n := len(sinks[0].events()); n != 1 {
			h.t.Errorf("%d events for a client that does not read", n)
		}
		sinks[0].release()
		time.Sleep(time.Second)
		serials(h.t, sinks[0].events(), 2, messages)
		if n := most.Load(); n != 1 {
			h.t.Errorf("%d were served at once", n)
		}
	})
}

func TestEnd_EachGetsOneLastEventAndComplete(t *testing.T) {
	inBubble(t, Config{}, func(h *house) {
		sinks, _ := h.crowd(5, "last", 0)
		slow := sinks[2]
		slow.setSlow()
		h.home.PostN(h.room.ID, 1)
		synctest.Wait()
		h.home.Lock(h.room.Shard)
		synctest.Wait()
		if slow.ended != 0 {
			h.t.Error("the slow one was completed before its event was out")
		}
		slow.release()
		synctest.Wait()
		for i, s := range sinks {
			events := s.events()
			last := events[len(events)-1]
			if len(events) != 3 || !strings.HasPrefix(string(last), `{"errors":[`) || !strings.HasSuffix(string(last), `"data":null}`) {
				h.t.Errorf("sink %d: %d events, the last %s", i, len(events), last)
			}
			if b := parse(h.t, last); b.Errors[0].Extensions.Code != "SHARD_NOT_OWNED" {
				h.t.Errorf("code %s", b.Errors[0].Extensions.Code)
			}
			if s.ended != 1 || s.failed != nil || s.overlap {
				h.t.Errorf("sink %d: completed %d times, failed %v, overlap %v", i, s.ended, s.failed, s.overlap)
			}
		}
	})
}

func TestEnd_ReadersThatCatchUpAreToldToo(t *testing.T) {
	inBubble(t, Config{}, func(h *house) {
		h.home.PostN(h.room.ID, 500)
		s := &sink{slow: true}
		h.subscribe(s, plainDocument)
		synctest.Wait()
		h.home.Lock(h.room.Shard)
		s.release()
		synctest.Wait()
		events := s.events()
		if b := parse(h.t, events[len(events)-1]); len(b.Errors) != 1 || s.ended != 1 {
			h.t.Errorf("last event %s, completed %d times", events[len(events)-1], s.ended)
		}
	})
}

// A paused process is woken by nobody: what it would send is found out by the lease.
func TestEnd_NothingLeavesWhenTheLeaseHasRunOut(t *testing.T) {
	inBubble(t, Config{}, func(h *house) {
		sinks, _ := h.crowd(2, "last", 0)
		h.home.Inject(domaintest.Fault{Op: domaintest.OpMessages, Times: 1, Wait: after(time.Second)})
		h.home.PostN(h.room.ID, 1) // the lane is now reading, and will be for a second
		synctest.Wait()
		h.home.Lapse(h.room.Shard)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for _, s := range sinks {
			events := s.events()
			if len(events) != 2 || len(parse(h.t, events[1]).Errors) != 1 || s.ended != 1 {
				h.t.Errorf("events %s", events)
			}
		}
	})
}

func after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}

func TestFail_WriteErrorEndsOneMemberOnly(t *testing.T) {
	inBubble(t, Config{}, func(h *house) {
		sinks, stop := h.crowd(3, "last", 0)
		defer stop()
		sinks[1].mu.Lock()
		sinks[1].err = errTorn
		sinks[1].mu.Unlock()
		h.home.PostN(h.room.ID, 1)
		synctest.Wait()
		h.home.PostN(h.room.ID, 1)
		synctest.Wait()
		if sinks[1].failed != errTorn || len(sinks[1].events()) != 2 || sinks[1].ended != 0 {
			h.t.Errorf("failed %v, %d events, completed %d times", sinks[1].failed, len(sinks[1].events()), sinks[1].ended)
		}
		serials(h.t, sinks[0].events(), 1, 2)
		if cut, left := h.seen.cut.Load(), h.hub.Subscriptions(); cut != 1 || left != 2 {
			h.t.Errorf("%d cut, %d left", cut, left)
		}
	})
}

func TestPanic_IsTheLastEventOfTheOneWhoExecuted(t *testing.T) {
	inBubble(t, Config{}, func(h *house) {
		sinks, stop := h.crowd(3, "last", 0)
		defer stop()
		h.home.Inject(domaintest.Fault{Op: domaintest.OpMessages, Times: 1, Panic: "secret"})
		h.home.PostN(h.room.ID, 1)
		synctest.Wait()
		broken, whole := 0, 0
		for _, s := range sinks {
			events := s.events()
			last := string(events[len(events)-1])
			switch {
			case strings.Contains(last, "secret"):
				h.t.Errorf("an inner text leaves: %s", last)
			case strings.Contains(last, `"INTERNAL"`) && s.ended == 1:
				broken++
			case len(parse(h.t, []byte(last)).Errors) == 0:
				whole++
			}
		}
		if broken != 1 || whole != 2 {
			h.t.Errorf("%d broken, %d whole", broken, whole)
		}
	})
}

func TestRefusedStart_IsOneEventAndComplete(t *testing.T) {
	inBubble(t, Config{}, func(h *house) {
		s := &sink{}
		h.subscribe(s, plainDocument, "after", "nonsense")
		if len(s.events()) != 1 || parse(h.t, s.events()[0]).Errors[0].Extensions.Code != "BAD_REQUEST" || s.ended != 1 {
			h.t.Errorf("events %s, completed %d times", s.events(), s.ended)
		}
	})
}

func TestQuery_RunsOnTheCallersGoroutine(t *testing.T) {
	inBubble(t, Config{}, func(h *house) {
		s := &sink{}
		h.subscribe(s, `query Q($room: ID!) { chatRoom(id: $room) { name } }`)
		if got := string(s.events()[0]); got != `{"data":{"chatRoom":{"name":"lobby"}}}` || s.ended != 1 {
			h.t.Errorf("got %s, completed %d times", got, s.ended)
		}
	})
}

func TestStop_AtAnyMoment(t *testing.T) {
	inBubble(t, Config{}, func(h *house) {
		h.home.PostN(h.room.ID, 300)
		before := &sink{}
		sub := h.hub.NewSubscription(context.Background(), before)
		sub.Stop()
		op, err := operation(context.Background(), h.exec, plainDocument, h.room)
		if err != nil {
			h.t.Fatal(err)
		}
		sub.Run(Request{Exec: h.exec, Operation: op, Sink: before})
		synctest.Wait()
		if len(before.events()) != 0 || before.ended != 0 {
			h.t.Error("something came after Stop")
		}

		// While it executes.
		h.home.Inject(domaintest.Fault{Op: domaintest.OpMessages, Times: 1, Wait: after(time.Second)})
		during := &sink{}
		sub = h.subscribe(during, plainDocument)
		synctest.Wait()
		sub.Stop()
		sub.Stop()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(during.events()) != 0 || during.ended != 0 {
			h.t.Error("something came after Stop")
		}

		// While a write is pending.
		slow := &sink{slow: true}
		sub = h.subscribe(slow, plainDocument, "last", 0)
		synctest.Wait()
		sub.Stop()
		slow.release()
		synctest.Wait()
		if len(slow.events()) != 1 || slow.ended != 0 {
			h.t.Errorf("%d events, completed %d times", len(slow.events()), slow.ended)
		}
	})
}

func TestCursor_IsTheEventsEndCursor(t *testing.T) {
	inBubble(t, Config{}, func(h *house) {
		sinks, stop := h.crowd(1)
		defer stop()
		h.home.PostN(h.room.ID, 2)
		synctest.Wait()
		for i, p := range sinks[0].events() {
			if got, want := sinks[0].cursors[i], parse(h.t, p).Data.Messages.EndCursor; got != want || got == "" {
				h.t.Errorf("event %d: cursor %q, endCursor %q", i, got, want)
			}
		}
	})
}

func TestShards_AreFollowedByEachAlone(t *testing.T) {
	inBubble(t, Config{}, func(h *house) {
		var sinks [3]*sink
		for i := range sinks {
			sinks[i] = &sink{}
			defer h.subscribe(sinks[i], `subscription { shards { number state } }`).Stop()
		}
		synctest.Wait()
		h.home.Lock(3)
		synctest.Wait()
		for _, s := range sinks {
			events := s.events()
			if len(events) != 2 || !strings.Contains(string(events[1]), "LOCKED") {
				h.t.Errorf("events %s", events)
			}
		}
		if n := h.hub.Groups(); n != 0 {
			h.t.Errorf("%d groups are shared", n)
		}
	})
}
