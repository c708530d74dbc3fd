package local

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// fault is the state of one opened database: fine, or failed for a reason. It never heals.
//
// It is also Pebble's logger and listener, because Pebble's own answer to a full disk or a corrupt file is to end the
// process (cockroachdb/pebble#3427).
type fault struct {
	once   sync.Once
	cause  atomic.Pointer[error]
	frozen atomic.Bool // nothing reaches the disk any more (freeze.go)
	closed atomic.Bool // being closed: Pebble cancels work in the background, which is no fault
	set    chan struct{}
	log    func(error)
}

func newFault(log func(error)) *fault { return &fault{set: make(chan struct{}), log: log} }

// fail notes the first cause. It may be called with any lock of Pebble held, so it calls nothing of Pebble.
func (f *fault) fail(cause error) {
	f.once.Do(func() {
		f.frozen.Store(true)
		if pebble.IsCorruptionError(cause) && !errors.Is(cause, ErrCorrupt) {
			cause = fmt.Errorf("%w: %w", ErrCorrupt, cause)
		}
		err := fmt.Errorf("%w: %w", ErrFault, cause)
		f.cause.Store(&err)
		close(f.set)
		f.log(cause)
	})
}

// freeze keeps everything that follows off the disk, without being a fault.
func (f *fault) freeze() { f.frozen.Store(true) }

func (f *fault) err() error {
	if p := f.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// Infof is Pebble's chatter.
func (f *fault) Infof(string, ...any) {}

// Errorf is what Pebble reports and goes on from. Whatever matters comes as an error or an event too.
func (f *fault) Errorf(string, ...any) {}

// Fatalf is called where Pebble cannot go on, and would end the process. It returns, and Pebble stumbles on: nothing
// of it reaches the disk or an answer, because the fault is checked after everything that Pebble did.
func (f *fault) Fatalf(format string, args ...any) { f.fail(fmt.Errorf(format, args...)) }

func (f *fault) listener() *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			if !f.closed.Load() {
				f.fail(err)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			f.fail(fmt.Errorf("%w: %w", ErrCorrupt, info.Details))
		},
	}
}
