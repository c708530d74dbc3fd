package fanout

import "runtime"

// turns lets only so many goroutines at once do what those who lag or come back need. Whoever waits for a turn is
// not in the scheduler's queue, where what is live would have to wait behind a whole crowd: as long as turns are
// fewer than processors, it finds one.
type turns chan struct{}

func defaultTurns() int { return max(runtime.GOMAXPROCS(0)/2, 1) }

// take waits for a turn. False: end came first.
func (t turns) take(end <-chan struct{}) bool {
	select {
	case t <- struct{}{}:
		runtime.Gosched() // who is handed a turn would run at once, and so would all the others after it
		return true
	case <-end:
		return false
	}
}

func (t turns) give() { <-t }

// catchUp brings s, which is busy meanwhile, to where the others are: one event each turn, so that all who come back
// move on together. Its client is waited for between turns, on this goroutine of its own.
//
// It reads in replay mode, in pages that end at the same positions for everybody: readers who came from
// different cursors soon find each other's events in the ring.
func (l *lane) catchUp(s *Subscription) {
	written := make(chan error, 1)
	done := func(err error) { written <- err }
	for !s.gone.Load() {
		if !l.g.hub.turns.take(s.ctx.Done()) {
			return // it was stopped
		}
		e, pending, err := l.nextFor(s, done)
		l.g.hub.turns.give()
		if pending {
			err = <-written // within the transport's write deadline
		}
		switch {
		case err != nil:
			s.fail(err)
			return
		case e == nil:
			s.busy.Store(false)
			l.wake()
			return
		case e.last:
			s.complete()
			return
		}
	}
}

// nextFor sends s one event from where it stands. Without an event s is where the lane goes on for it, or was stopped.
func (l *lane) nextFor(s *Subscription, done func(error)) (e *entry, pending bool, err error) {
	feed := l.g.id.feed
	for e == nil {
		if err := feed.Err(); err != nil {
			e = s.final(err)
			break
		}
		tip, front := feed.Tip(), l.at()
		if !s.first && s.pos >= tip {
			return nil, false, nil
		}
		if e = l.g.find(s, tip); e != nil {
			break
		}
		if s.pos >= front {
			return nil, false, nil
		}
		if e = l.g.event(s, front); e == nil {
			return nil, false, nil
		}
		if feed.Err() != nil && !e.last {
			e = nil // the lease ran out during the execution: nothing of it may leave
		}
	}
	behind := feed.Tip() - s.pos
	s.first, s.pos, s.last = false, e.to, e.last
	if e.Payload == nil {
		return e, false, nil
	}
	b := builders.Get().(*Builder)
	defer putBuilder(b)
	pending, err = s.sink.TrySend(s.sink.Frame(b, &e.Event), done)
	if !e.last {
		l.g.hub.cfg.Observer.CaughtUp(max(0, behind))
	}
	return e, pending, err
}
