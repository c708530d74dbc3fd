package fanout

import "github.com/chathome/chathome/domain"

// catchUp brings s, which is busy meanwhile, to where the others are. It waits for its client, so it has a
// goroutine of its own; it waits for one of few slots before it executes, so that a crowd that comes back
// after a restart does not take the processor from those who are live.
//
// It reads in replay mode, in pages that end at the same positions for everybody: readers who came from
// different cursors soon find each other's events in the ring.
func (l *lane) catchUp(s *Subscription) {
	b := builders.Get().(*Builder)
	defer putBuilder(b)
	feed := l.g.id.feed
	for !s.gone.Load() {
		var e *entry
		if err := feed.Err(); err != nil {
			e = s.final(err)
		} else {
			tip := feed.Tip()
			if !s.first && s.pos >= tip {
				break
			}
			if e = l.g.find(s, tip); e == nil {
				front := domain.Serial(l.front.Load())
				if s.pos >= front {
					break // the lane executes for it
				}
				if e = l.executeSlowly(s, front); e == nil {
					return // it was stopped
				}
				if feed.Err() != nil && !e.last {
					continue // the lease ran out during the execution: nothing of it may leave
				}
			}
		}
		behind := feed.Tip() - s.pos
		s.first, s.pos, s.last = false, e.to, e.last
		if e.Payload != nil && !s.send(b, e) {
			return
		}
		if e.last {
			s.complete()
			return
		}
		l.g.hub.cfg.Observer.CaughtUp(max(0, behind))
	}
	s.busy.Store(false)
	l.wake()
}

// executeSlowly is event in one of the slots.
func (l *lane) executeSlowly(s *Subscription, front domain.Serial) *entry {
	slots := l.g.hub.slots
	select {
	case slots <- struct{}{}:
	case <-s.ctx.Done():
		return nil
	}
	defer func() { <-slots }()
	return l.g.event(s, front)
}
