package fanout

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/chathome/chathome/domain"
)

// lane is a part of a group's members and, while there is something to send, the goroutine that sends to them.
type lane struct {
	g       *group
	members []*Subscription // under group.mu; replaced when one leaves
	state   atomic.Int32    // idle, running or again

	// front is where the last round ended: members there move together. Written by the lane's goroutine.
	front atomic.Int64
}

func (l *lane) at() domain.Serial { return domain.Serial(l.front.Load()) }

const (
	idle    int32 = iota
	running       // a goroutine is at it
	again         // … and has to look once more before it ends
)

// wake makes sure that a round begins after now. It does not wait.
func (l *lane) wake() {
	for {
		switch l.state.Load() {
		case idle:
			if l.state.CompareAndSwap(idle, running) {
				go l.run()
				return
			}
		case running:
			if l.state.CompareAndSwap(running, again) {
				return
			}
		case again:
			return
		}
	}
}

var builders = sync.Pool{New: func() any { return &Builder{} }}

func (l *lane) run() {
	b := builders.Get().(*Builder)
	defer putBuilder(b)
	for {
		for l.round(b) {
		}
		if l.state.CompareAndSwap(running, idle) {
			return
		}
		l.state.Store(running) // it was again
	}
}

// putBuilder keeps the buffer, but nobody's event.
func putBuilder(b *Builder) {
	if cap(b.frame.Bytes) > maxKept {
		b.frame.Bytes = nil
	}
	b.event, b.frame.payload, b.frame.suffix = nil, nil, nil
	builders.Put(b)
}

func (l *lane) snapshot() []*Subscription {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	return l.members[:len(l.members):len(l.members)]
}

// breath is after how many writes, a few microseconds each, a lane lets others go first: those who follow a small room
// do not wait for a large one.
const breath = 64

// round walks the members once and sends each the event that it is due, without waiting for anybody. It
// executes once for those at the front; whoever stands behind them catches up on its own time. again: there
// may be more to do.
func (l *lane) round(b *Builder) (again bool) {
	members := l.snapshot()
	if len(members) == 0 {
		return false
	}
	feed := l.g.id.feed
	if err := feed.Err(); err != nil {
		l.end(b, members, err)
		return false // busy members wake the lane when they are ready
	}
	tip, front := feed.Tip(), l.at()
	var (
		current            *entry             // what this round sends, mostly
		ahead              domain.Serial = -1 // the lowest position beyond the front where somebody waits
		delivered, pending int
	)
	for _, s := range members {
		if s.busy.Load() || s.gone.Load() || !s.first && s.pos >= tip {
			continue
		}
		e := current
		if e == nil || e.from != s.pos || e.to < s.joined {
			e = l.g.find(s, tip)
		}
		switch {
		case e != nil:
		case s.pos > front: // it came between two rounds
			if ahead < 0 || s.pos < ahead {
				ahead = s.pos
			}
			continue
		case s.pos < front:
			s.busy.Store(true)
			go l.catchUp(s)
			continue
		default:
			if e = l.g.event(s, 0); e == nil {
				continue // it was stopped
			}
			if feed.Err() != nil && !e.last {
				return true // the lease ran out during the execution: nothing of it may leave
			}
		}
		if !e.private {
			current = e
			l.front.Store(max(l.front.Load(), int64(e.to)))
		}
		delivered++
		if l.deliver(b, s, e) {
			pending++
		}
		if delivered%breath == 0 {
			runtime.Gosched()
		}
	}
	if delivered == 0 && ahead >= 0 {
		l.front.Store(int64(ahead))
		return true
	}
	if delivered > 0 {
		l.g.hub.cfg.Observer.Delivered(delivered, pending)
	}
	return delivered > 0
}

// deliver hands one event to one member. pending: the client is slow, and the member is busy until the rest
// is out.
func (l *lane) deliver(b *Builder, s *Subscription, e *entry) (pending bool) {
	s.first, s.pos, s.last = false, e.to, e.last
	if e.Payload == nil {
		s.complete()
		return false
	}
	s.busy.Store(true) // before: the slow write may end before TrySend returns
	pending, err := s.sink.TrySend(s.sink.Frame(b, &e.Event), s.done)
	if !pending {
		s.settle(err)
	}
	return pending
}

// settle is called when an event is out, or not.
func (s *Subscription) settle(err error) {
	switch {
	case err != nil:
		s.fail(err)
	case s.last:
		s.complete()
	default:
		s.busy.Store(false)
	}
}

// wrote ends a slow write.
func (s *Subscription) wrote(err error) {
	s.settle(err)
	s.lane.wake()
}

// end gives each member its last event.
func (l *lane) end(b *Builder, members []*Subscription, err error) {
	for _, s := range members {
		if !s.busy.Load() && !s.gone.Load() {
			l.deliver(b, s, s.final(err))
		}
	}
}
