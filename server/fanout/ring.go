package fanout

import (
	"sync/atomic"

	"github.com/chathome/chathome/domain"
)

// entry is one encoded event that leads from one position to the next.
type entry struct {
	Event
	from, to domain.Serial
	atTip    bool // it may say that it is live: it ends where the feed ended when it was read
	private  bool // with errors or extensions: only for the member that executed
	last     bool // the stream has ended with it
}

// ring keeps a group's newest events, bounded in number and bytes. Its group's mutex guards it.
type ring struct {
	entries []*entry // oldest first
	bytes   int
	total   *atomic.Int64 // of all rings of the hub
}

// add keeps e and lets go of the oldest ones until the bounds hold.
func (r *ring) add(e *entry, cfg *Config) {
	r.entries = append(r.entries, e)
	r.account(len(e.Payload))
	for len(r.entries) > 1 && (len(r.entries) > cfg.RingEvents || r.bytes > cfg.RingBytes || r.total.Load() > cfg.TotalRingBytes) {
		r.account(-len(r.entries[0].Payload))
		r.entries[0] = nil
		r.entries = r.entries[1:]
	}
}

func (r *ring) account(n int) {
	r.bytes += n
	r.total.Add(int64(n))
}

// clear lets go of everything.
func (r *ring) clear() {
	r.account(-r.bytes)
	r.entries = nil
}

// find gives the newest event from this position on that serves a member who joined when the feed stood at
// joined, while it stands at tip now; nil: it is better to execute.
//
// An event that may say "live" is only for those who joined no later than it ends: live means that everything
// which was there at the start has come. And one that leads less than a quarter of the way to the tip is not worth its write.
func (r *ring) find(pos, joined, tip domain.Serial) *entry {
	for i := len(r.entries) - 1; i >= 0; i-- {
		e := r.entries[i]
		if e.from == pos && (!e.atTip || e.to >= joined && 4*(e.to-e.from) >= tip-e.from) {
			return e
		}
	}
	return nil
}
