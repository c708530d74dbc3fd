package ws

import (
	"sync"
	"time"
)

// pinger visits every connection once an interval, on one goroutine for all of them, which runs only while there are
// any. The connections are spread over as many slots as there are ticks in an interval, so that ten thousand
// are not pinged at one moment.
type pinger struct {
	tick time.Duration

	mu    sync.Mutex
	slots [pingSlots]map[*conn]struct{}
	next  int // where the next connection goes
	count int
	on    bool
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
	if !p.on {
		p.on = true
		go p.run()
	}
}

func (p *pinger) remove(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.slots[c.slot], c)
	p.count--
}

func (p *pinger) run() {
	ticker := time.NewTicker(p.tick)
	defer ticker.Stop()
	var due []*conn
	for slot := 0; ; slot = (slot + 1) % pingSlots {
		<-ticker.C
		due = due[:0]
		p.mu.Lock()
		if p.count == 0 {
			p.on = false
			p.mu.Unlock()
			return
		}
		for c := range p.slots[slot] {
			due = append(due, c)
		}
		p.mu.Unlock()
		for _, c := range due {
			c.ping()
		}
		clear(due)
	}
}
