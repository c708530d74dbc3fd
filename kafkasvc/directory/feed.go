package directory

import (
	"sync"

	"github.com/chathome/chathome/domain"
)

// feed is the room list of one life as a stream.
type feed struct {
	mu    sync.Mutex
	tip   domain.Serial
	err   error
	wakes map[*func()]struct{}
}

var _ domain.Feed = (*feed)(nil)

func newFeed(tip domain.Serial) *feed {
	return &feed{tip: tip, wakes: make(map[*func()]struct{})}
}

func (f *feed) Tip() domain.Serial {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tip
}

func (f *feed) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *feed) Watch(wake func()) (stop func()) {
	key := &wake
	f.mu.Lock()
	f.wakes[key] = struct{}{}
	ended := f.err != nil
	f.mu.Unlock()
	if ended {
		wake()
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.wakes, key)
	}
}

func (f *feed) advance(tip domain.Serial) {
	f.mu.Lock()
	if f.err != nil || tip <= f.tip {
		f.mu.Unlock()
		return
	}
	f.tip = tip
	f.wakeAll()
}

func (f *feed) end(err error) {
	f.mu.Lock()
	if f.err != nil {
		f.mu.Unlock()
		return
	}
	f.err = err
	f.wakeAll()
}

// wakeAll unlocks mu and calls everybody: a wake may stop its own watch.
func (f *feed) wakeAll() {
	wakes := make([]func(), 0, len(f.wakes))
	for w := range f.wakes {
		wakes = append(wakes, *w)
	}
	f.mu.Unlock()
	for _, w := range wakes {
		w()
	}
}
