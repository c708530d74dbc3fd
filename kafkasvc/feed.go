package kafkasvc

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/chathome/chathome/domain"
)

// feed is a position that only grows, and who wants to know. It implements domain.Feed.
type feed struct {
	tip   atomic.Int64
	check func() error // asked while the feed stands: the lease

	mu       sync.Mutex
	watchers []*watcher // copied on write: advance walks it without the lock
	err      error      // sticky
}

type watcher struct{ wake func() }

func newFeed(tip domain.Serial, check func() error) *feed {
	f := &feed{check: check}
	f.tip.Store(int64(tip))
	return f
}

// Tip implements domain.Feed.
func (f *feed) Tip() domain.Serial { return domain.Serial(f.tip.Load()) }

// Err implements domain.Feed. What check says once is the feed's last word.
func (f *feed) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil && f.check != nil {
		f.err = f.check()
	}
	return f.err
}

func (f *feed) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err != nil
}

// Watch implements domain.Feed.
func (f *feed) Watch(wake func()) (stop func()) {
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

// advance sets the tip and wakes everybody once: call it once a group commit.
func (f *feed) advance(tip domain.Serial) {
	f.tip.Store(int64(tip))
	f.notify()
}

// end makes err the feed's last word.
func (f *feed) end(err error) {
	f.mu.Lock()
	if f.err == nil {
		f.err = err
	}
	f.mu.Unlock()
	f.notify()
}

func (f *feed) notify() {
	f.mu.Lock()
	ws := f.watchers
	f.mu.Unlock()
	for _, w := range ws {
		w.wake()
	}
}
