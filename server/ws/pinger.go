package ws

import (
	"sync"
	"time"
)

// pinger visits every connection once an interval. It has one timer for all of them and no goroutine in
// between; without connections it has no timer either. The connections are spread over as many slots as there
// are ticks in an interval, so that ten thousand are not pinged at one moment.
type pinger struct {
	tick time.Duration

	mu    sync.Mutex
	slots [pingSlots]map[*conn]struct{}
	next  int // where the next connection goes
	due   int // the slot of the next tick
	count int
	timer *time.Timer // nil: none is running
}

const pingSlots = 16

func (p *pinger) init(interval time.Duration) {
	p.tick = max(interval/pingSlots, time.Millisecond)
	for i := range p.slots {
		p.slots[i] = map[*conn]struct{}{}
	}
}

func (p *pinger) add(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.slot = p.next
	p.next = (p.next + 1) % pingSlots
	p.slots[c.slot][c] = struct{}{}
	p.count++
	if p.timer == nil {
		p.timer = time.AfterFunc(p.tick, p.visit)
	}
}

func (p *pinger) remove(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.slots[c.slot], c)
	if p.count--; p.count == 0 && p.timer.Stop() {
		p.timer = nil // else visit is on its way, and finds nobody
	}
}

// visit is one tick.
func (p *pinger) visit() {
	p.mu.Lock()
	due := make([]*conn, 0, len(p.slots[p.due]))
	for c := range p.slots[p.due] {
		due = append(due, c)
	}
	p.due = (p.due + 1) % pingSlots
	if p.count == 0 {
		p.timer = nil
	} else {
		p.timer.Reset(p.tick)
	}
	p.mu.Unlock()
	for _, c := range due {
		c.ping()
	}
}
