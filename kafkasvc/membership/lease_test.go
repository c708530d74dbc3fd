package membership

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"

	"github.com/chathome/chathome/internal/bubbletest"
)

// fakeClock runs with the bubble's clock, from a start of its own, and can be moved on as by a suspend.
type fakeClock struct {
	start time.Time
	slept atomic.Int64
}

func newFakeClock() *fakeClock { return &fakeClock{start: time.Now().Add(-time.Hour)} }

func (c *fakeClock) now() time.Duration      { return time.Since(c.start) + time.Duration(c.slept.Load()) }
func (c *fakeClock) suspend(d time.Duration) { c.slept.Add(int64(d)) }

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestLease_ValidFromAHeartbeatUntilTermAfterItWasSent(t *testing.T) {
	var now time.Duration
	l := NewLease(func() time.Duration { return now }, 10)
	if l.Valid() {
		t.Error("valid before the first heartbeat")
	}
	now = 105
	l.Renew(100) // the answer took 5: that is not ours to use
	for _, tt := range []struct {
		now  time.Duration
		want bool
	}{{105, true}, {109, true}, {110, false}, {1000, false}} {
		if now = tt.now; l.Valid() != tt.want {
			t.Errorf("at %d: valid %v", now, l.Valid())
		}
	}
	l.Renew(995) // heals
	if !l.Valid() {
		t.Error("did not heal")
	}
	l.Renew(900) // an answer that was overtaken
	if !l.Valid() {
		t.Error("an older heartbeat shortened the lease")
	}
	l.End(ErrRebalance)
	l.Renew(1000)
	l.End(ErrStopped)
	if l.Valid() || !closed(l.Done()) || !errors.Is(l.Err(), ErrRebalance) {
		t.Errorf("after the end: valid %v, err %v", l.Valid(), l.Err())
	}
}

func TestLease_LapsedTellsThoseWhoWait(t *testing.T) {
	var now time.Duration
	l := NewLease(func() time.Duration { return now }, 10)
	if !closed(l.Lapsed()) {
		t.Error("a lease without a heartbeat has not lapsed")
	}
	l.Renew(0)
	first := l.Lapsed()
	if closed(first) {
		t.Error("lapsed while valid")
	}
	now = 10
	l.Renew(9) // healed before anybody looked
	if !closed(first) {
		t.Error("a lapse that healed was kept secret")
	}
	second := l.Lapsed()
	if closed(second) {
		t.Error("lapsed after it healed")
	}
	l.End(ErrGeneration)
	if !closed(second) || !closed(l.Lapsed()) {
		t.Error("not lapsed after the end")
	}
}

func TestLease_Keep(t *testing.T) {
	const (
		interval = 200 * time.Millisecond
		limit    = time.Second
		term     = 3500 * time.Millisecond
	)
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	good := func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil }

	run := func(t *testing.T, beat func(context.Context) error, body func(*testing.T, *Lease, *fakeClock)) {
		t.Helper()
		bubbletest.Test(t, func(t *testing.T) {
			clock := newFakeClock()
			l := NewLease(clock.now, term)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); l.Keep(ctx, interval, limit, beat) }()
			body(t, l, clock)
			cancel()
			<-done
		})
	}

	t.Run("stays valid and never asks for too much", func(t *testing.T) {
		var n atomic.Int64
		run(t, func(ctx context.Context) error { n.Add(1); return good(ctx) }, func(t *testing.T, l *Lease, _ *fakeClock) {
			time.Sleep(50 * time.Millisecond)
			for range 1000 {
				if !l.Valid() {
					t.Fatal("not valid")
				}
				time.Sleep(10 * time.Millisecond)
			}
			if got := n.Load(); got < 49 || got > 52 {
				t.Errorf("%d heartbeats in 10 s", got)
			}
		})
	})

	t.Run("lapses exactly, tells it, and heals", func(t *testing.T) {
		var silent atomic.Bool
		run(t, func(ctx context.Context) error {
			if silent.Load() {
				return hang(ctx)
			}
			return good(ctx)
		}, func(t *testing.T, l *Lease, clock *fakeClock) {
			time.Sleep(2*interval + 100*time.Millisecond) // the last good one was sent at 400 ms
			silent.Store(true)
			lapsed := l.Lapsed()
			<-lapsed
			if at := clock.now() - time.Hour; at != 2*interval+term {
				t.Errorf("told at %v", at)
			}
			if l.Valid() || closed(l.Done()) {
				t.Error("a lapse is neither valid nor an end")
			}
			if n, err := l.Trouble(); n < 3 || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("trouble %d, %v", n, err)
			}
			silent.Store(false)
			time.Sleep(limit + interval + 100*time.Millisecond)
			if !l.Valid() {
				t.Error("did not heal")
			}
			if n, err := l.Trouble(); n != 0 || err != nil {
				t.Errorf("trouble after healing: %d, %v", n, err)
			}
		})
	})

	t.Run("a suspend is seen at once", func(t *testing.T) {
		run(t, good, func(t *testing.T, l *Lease, clock *fakeClock) {
			time.Sleep(500 * time.Millisecond)
			lapsed := l.Lapsed()
			clock.suspend(8 * time.Second)
			if l.Valid() {
				t.Error("valid after a suspend of 8 s")
			}
			time.Sleep(interval)
			if !closed(lapsed) {
				t.Error("nobody was told within an interval")
			}
		})
	})

	t.Run("a refusal ends it for ever", func(t *testing.T) {
		for _, tt := range []struct {
			answer error
			want   error // nil: it says nothing about membership
		}{
			{kafka.RebalanceInProgress, ErrRebalance},
			{fmt.Errorf("wrapped: %w", kafka.RebalanceInProgress), ErrRebalance},
			{kafka.IllegalGeneration, ErrEvicted},
			{kafka.UnknownMemberId, ErrEvicted},
			{kafka.FencedInstanceID, ErrEvicted},
			{kafka.NotCoordinatorForGroup, nil},
			{kafka.GroupCoordinatorNotAvailable, nil},
			{kafka.GroupLoadInProgress, nil},
			{kafka.RequestTimedOut, nil},
			{kafka.GroupAuthorizationFailed, nil},
			{io.EOF, nil},
		} {
			var refuse atomic.Bool
			run(t, func(ctx context.Context) error {
				if refuse.Load() {
					return tt.answer
				}
				return nil
			}, func(t *testing.T, l *Lease, _ *fakeClock) {
				time.Sleep(500 * time.Millisecond)
				refuse.Store(true)
				lapsed := l.Lapsed()
				time.Sleep(interval)
				refuse.Store(false) // a later good one does not bring it back
				time.Sleep(time.Second)
				if tt.want == nil {
					if l.Err() != nil || !l.Valid() || closed(lapsed) {
						t.Errorf("%v: err %v, valid %v", tt.answer, l.Err(), l.Valid())
					}
					return
				}
				if !errors.Is(l.Err(), tt.want) || !errors.Is(l.Err(), tt.answer) || l.Valid() || !closed(lapsed) {
					t.Errorf("%v: err %v, valid %v", tt.answer, l.Err(), l.Valid())
				}
			})
		}
	})

	t.Run("confirm waits for a heartbeat that was sent later", func(t *testing.T) {
		var slow atomic.Bool
		run(t, func(ctx context.Context) error {
			if slow.Load() {
				time.Sleep(900 * time.Millisecond)
			}
			return nil
		}, func(t *testing.T, l *Lease, clock *fakeClock) {
			time.Sleep(300 * time.Millisecond)
			slow.Store(true)
			time.Sleep(150 * time.Millisecond) // one is under way since 400 ms: it proves nothing
			asked := clock.now()
			if err := l.Confirm(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := clock.now() - asked; took < 900*time.Millisecond || took > 2*time.Second {
				t.Errorf("confirmed after %v", took)
			}
			l.mu.Lock()
			if l.sent <= asked {
				t.Errorf("confirmed by a heartbeat that was sent %v before", asked-l.sent)
			}
			l.mu.Unlock()
		})
	})

	t.Run("confirm does not wait for the next interval", func(t *testing.T) {
		run(t, good, func(t *testing.T, l *Lease, clock *fakeClock) {
			time.Sleep(250 * time.Millisecond)
			asked := clock.now()
			if err := l.WaitHeartbeatAfter(t.Context(), asked-1); err != nil {
				t.Fatal(err)
			}
			if took := clock.now() - asked; took != 10*time.Millisecond {
				t.Errorf("confirmed after %v", took)
			}
		})
	})

	t.Run("confirm fails with the lease or the caller", func(t *testing.T) {
		run(t, hang, func(t *testing.T, l *Lease, _ *fakeClock) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := l.Confirm(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			time.AfterFunc(time.Second, func() { l.End(ErrRebalance) })
			if err := l.Confirm(t.Context()); !errors.Is(err, ErrRebalance) {
				t.Errorf("got %v", err)
			}
		})
	})

	t.Run("failures that come at once do not make it spin", func(t *testing.T) {
		var n atomic.Int64
		run(t, func(context.Context) error { n.Add(1); return io.EOF }, func(t *testing.T, l *Lease, _ *fakeClock) {
			time.Sleep(10 * time.Second)
			if got := n.Load(); got > 60 {
				t.Errorf("%d heartbeats in 10 s", got)
			}
		})
	})
}

func TestBootClock_GoesOn(t *testing.T) {
	a := BootClock()
	time.Sleep(time.Millisecond)
	if b := BootClock(); b-a < time.Millisecond {
		t.Errorf("%v after %v", b, a)
	}
}

func BenchmarkLease_Valid(b *testing.B) {
	l := NewLease(BootClock, time.Hour)
	l.Renew(l.Now())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !l.Valid() {
				b.Error("not valid")
			}
		}
	})
}
