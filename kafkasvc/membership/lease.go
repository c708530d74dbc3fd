package membership

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

// Clock reads a clock that never steps back and, in production, counts suspend. Its zero means nothing.
type Clock func() time.Duration

// Reasons for which a lease ends for ever. Lease.Err wraps one of them.
var (
	ErrRebalance  = errors.New("the group rebalances")
	ErrEvicted    = errors.New("the group does not know this member or generation any more")
	ErrGeneration = errors.New("the generation has ended")
	ErrStopped    = errors.New("leaving the group")
)

// Lease is the right to answer reads for the shards of one generation.
//
// It is valid while now − sent < term, where sent is when the last successful heartbeat was *sent*: from then
// on the coordinator waits at least min(session, rebalance timeout) before it can give the shards away.
//
// An administrator who removes a member from the group by force is not bound by these timeouts: until the next
// heartbeat, one interval, a read may be stale then.
//
// It may lapse and heal: a later good heartbeat of the same generation proves that this member was in the group
// all the time, so nobody else owned its shards in between. What was refused while it was lapsed stays refused,
// and a channel from Lapsed stays closed. Once it has *ended* (wrong generation, unknown member, rebalance,
// stop) it never becomes valid again.
type Lease struct {
	clock Clock
	term  time.Duration
	until atomic.Int64 // clock reading at which it lapses; ended and fresh leases: never

	mu       sync.Mutex
	sent     time.Duration // of the last good heartbeat; meaningless before the first
	renewed  chan struct{} // closed and replaced at each renewal, nil where nobody waits
	lapsed   chan struct{} // closed at the next lapse, nil where nobody waits
	ended    chan struct{} // closed at the end
	err      error         // why it ended
	failures int           // heartbeats without answer since the last good one
	lastFail error

	poke chan struct{} // asks Keep for a heartbeat now
}

const never = math.MinInt64

// NewLease returns a lease that is not valid yet: its first good heartbeat makes it so. It starts no goroutine.
func NewLease(clock Clock, term time.Duration) *Lease {
	l := &Lease{
		clock: clock,
		term:  term,
		ended: make(chan struct{}),
		poke:  make(chan struct{}, 1),
	}
	l.until.Store(never)
	return l
}

// Now reads the lease's clock.
func (l *Lease) Now() time.Duration { return l.clock() }

// Valid says whether a read may be answered now. It takes no lock: call it for each request, when it enters
// and again before the answer leaves.
func (l *Lease) Valid() bool { return int64(l.clock()) < l.until.Load() }

// Margin is how long the lease would stay valid without another heartbeat; below zero since it has lapsed. ok is false
// before the first heartbeat and after the end.
func (l *Lease) Margin() (left time.Duration, ok bool) {
	until := l.until.Load()
	if until == never {
		return 0, false
	}
	return time.Duration(until) - l.clock(), true
}

// Done is closed when the lease has ended for ever.
func (l *Lease) Done() <-chan struct{} { return l.ended }

// Err is nil until the lease has ended, afterwards it says why, for ever the same.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Lapsed returns a channel that is closed when the lease lapses or ends; it is closed already where the lease
// is not valid now. After a lease has healed, ask for a new one.
func (l *Lease) Lapsed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lapsed == nil {
		l.lapsed = make(chan struct{})
	}
	ch := l.lapsed
	if !l.Valid() {
		l.wake(&l.lapsed)
	}
	return ch
}

// WaitHeartbeatAfter returns nil when a heartbeat that was sent after t, a reading of Now, has succeeded, or an
// error when the lease or ctx has ended first. It asks for a heartbeat at once.
func (l *Lease) WaitHeartbeatAfter(ctx context.Context, t time.Duration) error {
	select {
	case l.poke <- struct{}{}:
	default: // one is asked for already, and it is still to be sent
	}
	return l.wait(ctx, t)
}

// wait waits for a heartbeat that was sent after t.
func (l *Lease) wait(ctx context.Context, t time.Duration) error {
	for {
		l.mu.Lock()
		if l.err != nil {
			defer l.mu.Unlock()
			return l.err
		}
		if l.until.Load() != never && l.sent > t {
			l.mu.Unlock()
			return nil
		}
		if l.renewed == nil {
			l.renewed = make(chan struct{})
		}
		renewed := l.renewed
		l.mu.Unlock()
		select {
		case <-renewed:
		case <-l.ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Confirm returns nil when a heartbeat that was sent after this call has succeeded: the generation lives.
func (l *Lease) Confirm(ctx context.Context) error { return l.WaitHeartbeatAfter(ctx, l.clock()) }

// Renew notes a good heartbeat that was sent at a reading of Now. An ended lease stays ended.
func (l *Lease) Renew(sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	if !l.Valid() {
		l.wake(&l.lapsed) // nobody may miss a lapse because it healed quickly
	}
	if l.until.Load() == never || sent > l.sent {
		l.sent = sent
		l.until.Store(int64(sent + l.term))
	}
	l.failures, l.lastFail = 0, nil
	l.wake(&l.renewed)
}

// End ends the lease for ever. Only the first reason counts.
func (l *Lease) End(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = reason
	l.until.Store(never)
	close(l.ended)
	l.wake(&l.lapsed)
	l.wake(&l.renewed)
}

// Trouble is why the last heartbeats got no answer, and how many; nil after a good one.
func (l *Lease) Trouble() (failures int, last error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failures, l.lastFail
}

// wake closes a channel that somebody waits on. Callers hold mu.
func (l *Lease) wake(ch *chan struct{}) {
	if *ch != nil {
		close(*ch)
		*ch = nil
	}
}

// Keep sends heartbeats until the lease or ctx ends: one at once, then one every interval, each with limit as
// its deadline. beat answers nil where the coordinator confirmed member and generation. An error that is one of
// kafka-go's RebalanceInProgress, IllegalGeneration, UnknownMemberId or FencedInstanceID ends the lease; any
// other one is a heartbeat that did not get through.
func (l *Lease) Keep(ctx context.Context, interval, limit time.Duration, beat func(context.Context) error) {
	var watcher sync.WaitGroup
	defer watcher.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher.Go(func() { l.watch(ctx, interval) }) // beside the heartbeats: one of them may hang for limit

	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.ended:
			return
		case <-l.poke:
		case <-next.C:
		}
		began := time.Now()
		sent := l.clock()
		bctx, done := context.WithTimeout(ctx, limit)
		err := beat(bctx)
		done()
		switch end := verdict(err); {
		case err == nil:
			l.Renew(sent)
		case end != nil:
			l.End(end)
			return
		default:
			l.mu.Lock()
			l.failures, l.lastFail = l.failures+1, err
			l.mu.Unlock()
		}
		// The pace counts from the sending; a failure never makes the loop spin.
		next.Reset(max(interval-time.Since(began), interval/4))
	}
}

// watch closes the channel of Lapsed in time. It looks at the clock at least once an interval, because a timer
// stands still while the machine is suspended and the lease's clock does not.
func (l *Lease) watch(ctx context.Context, interval time.Duration) {
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.ended:
			return
		case <-timer.C:
		}
		pause := interval
		l.mu.Lock()
		if until := l.until.Load(); until != never {
			if left := time.Duration(until) - l.clock(); left > 0 {
				pause = min(pause, left)
			} else {
				l.wake(&l.lapsed)
			}
		}
		l.mu.Unlock()
		timer.Reset(pause)
	}
}

// verdict is nil where err says nothing about membership.
func verdict(err error) error {
	var code kafka.Error
	if !errors.As(err, &code) {
		return nil
	}
	switch code {
	case kafka.RebalanceInProgress:
		return fmt.Errorf("%w: %w", ErrRebalance, err)
	case kafka.IllegalGeneration, kafka.UnknownMemberId, kafka.FencedInstanceID:
		return fmt.Errorf("%w: %w", ErrEvicted, err)
	}
	return nil
}
