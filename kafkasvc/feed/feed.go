// Package feed tells followers of a list that it has grown: of the messages of a room, of the rooms of a home, of the
// states of the shards.
package feed

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/chathome/chathome/domain"
)

// Feed is a position that only grows, and who wants to know. It implements domain.Feed.
type Feed struct {
	tip   atomic.Int64
	check func() error // asked while the feed stands: of the lease, say

	mu       sync.Mutex
	watchers []*watcher // copied on write: advance walks it without the lock
	err      error      // sticky
}

var _ domain.Feed = (*Feed)(nil)

type watcher struct{ wake func() }

// New makes a feed that stands at tip. check is asked while it stands, nil if nothing ends it but End.
func New(tip domain.Serial, check func() error) *Feed {
	f := &Feed{check: check}
	f.tip.Store(int64(tip))
	return f
}

// Tip implements domain.Feed.
func (f *Feed) Tip() domain.Serial { return domain.Serial(f.tip.Load()) }

// Err implements domain.Feed. What check says once is the feed's last word.
func (f *Feed) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && f.check != nil {
		f.err = f.check()
	}
	return f.err
}

// Ended says whether the feed has its last word already. It does not ask check.
func (f *Feed) Ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil
}

// Watch implements domain.Feed.
func (f *Feed) Watch(wake func()) (stop func()) {
	w := &watcher{wake}
	f.mu.Lock()
	f.watchers = append(slices.Clip(f.watchers), w)
	ended := f.err != nil
	f.mu.Unlock()
	if ended {
		wake()
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if i := slices.Index(f.watchers, w); i >= 0 {
			f.watchers = slices.Delete(slices.Clone(f.watchers), i, i+1)
		}
	}
}

// Advance sets the tip and wakes everybody once, if it grew: call it once a group commit. It is for one goroutine at a time.
func (f *Feed) Advance(tip domain.Serial) {
	if int64(tip) > f.tip.Load() {
		f.tip.Store(int64(tip))
		f.notify()
	}
}

// Step is Advance by one, for any goroutine.
func (f *Feed) Step() {
	f.tip.Add(1)
	f.notify()
}

// End makes err the feed's last word.
func (f *Feed) End(err error) {
	f.mu.Lock()
	if f.err == nil {
		f.err = err
	}
	f.mu.Unlock()
	f.notify()
}

func (f *Feed) notify() {
	f.mu.Lock()
	ws := f.watchers
	f.mu.Unlock()
	for _, w := range ws {
		w.wake()
	}
}
