package fanout

import (
	"slices"
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

// ring keeps the events of a group that are likely to be asked for again, bounded in number and bytes: when a
// crowd comes back, each reader's first event is its own, and the pages that all share must outlive those. So
// what was used last stays. Its group's mutex guards it.
type ring struct {
	entries []*entry // least recently used first; one for each position
	bytes   int
	total   *atomic.Int64 // of all rings of the hub
}

// add keeps e in place of what is there for its position, and lets go of others until the bounds hold.
func (r *ring) add(e *entry, cfg *Config) {
	if i := slices.IndexFunc(r.entries, func(o *entry) bool { return o.from == e.from }); i >= 0 {
		r.drop(i)
	}
	r.entries = append(r.entries, e)
	r.account(len(e.Payload))
	for len(r.entries) > 1 && (len(r.entries) > cfg.RingEvents || r.bytes > cfg.RingBytes || r.total.Load() > cfg.TotalRingBytes) {
		r.drop(0)
	}
}

func (r *ring) drop(i int) {
	r.account(-len(r.entries[i].Payload))
	r.entries = slices.Delete(r.entries, i, i+1)
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

// find gives the event from this position on, if it serves a member who joined when the feed stood at joined,
// while it stands at tip now; nil: it is better to execute.
//
// An event that may say "live" is only for those who joined no later than it ends: live means that everything
// which was there at the start has come. And one that leads less than a quarter of the way to the tip is not
// worth its write.
func (r *ring) find(pos, joined, tip domain.Serial) *entry {
	i := slices.IndexFunc(r.entries, func(e *entry) bool { return e.from == pos })
	if i < 0 {
		return nil
	}
	e := r.entries[i]
	if e.atTip && (e.to < joined || 4*(e.to-e.from) < tip-e.from) {
		return nil
	}
	copy(r.entries[i:], r.entries[i+1:])
	r.entries[len(r.entries)-1] = e
	return e
}
