package domaintest

import (
	"sync"
	"sync/atomic"

	"github.com/chathome/chathome/domain"
)

// feed is a domain.Feed. Whoever advances it calls wake afterwards, without locks.
type feed struct {
	tip      atomic.Int64
	err      func() error
	mu       sync.Mutex
	next     int
	watchers map[int]func()
}

func newFeed(tip domain.Serial, err func() error) *feed {
	f := &feed{err: err, watchers: map[int]func(){}}
	f.tip.Store(int64(tip))
	return f
}

func (f *feed) Tip() domain.Serial { return domain.Serial(f.tip.Load()) }

func (f *feed) set(tip domain.Serial) { f.tip.Store(int64(tip)) }

func (f *feed) Watch(wake func()) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := f.next
	f.next++
	f.watchers[id] = wake
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.watchers, id)
	}
}

func (f *feed) Err() error {
	if f.err == nil {
		return nil
	}
	return f.err()
}

// Watchers is how many follow the feed: for leak checks.
func (f *feed) Watchers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.watchers)
}

func (f *feed) wake() {
	f.mu.Lock()
	list := make([]func(), 0, len(f.watchers))
	for _, w := range f.watchers {
		list = append(list, w)
	}
	f.mu.Unlock()
	run(list)
}

// Watchers is how many follow a feed of this package: for leak checks.
func Watchers(f domain.Feed) int { return f.(*feed).Watchers() }
