// Package bubbletest runs tests in fake time.
package bubbletest

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/chathome/chathome/internal/racetest"
)

// Test is synctest.Test; with the race detector on one processor, as long as one is under way. All timers of a bubble
// share one context of the detector there (Go 1.26, bubble.timers.raceCtx in runtime/time.go): two goroutines that find
// timers due at once on two processors damage it, and the process dies in the detector, far from here. The detector
// itself needs no second processor: it follows what is ordered with what, not what ran at once.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer oneProcessor()()
	synctest.Test(t, f)
}

var bubbles struct {
	mu         sync.Mutex
	n          int
	processors int // of before
}

// oneProcessor is for tests that run beside each other, too.
func oneProcessor() (done func()) {
	if !racetest.Enabled {
		return func() {}
	}
	b := &bubbles
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n++; b.n == 1 {
		b.processors = runtime.GOMAXPROCS(1)
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.n--; b.n == 0 {
			runtime.GOMAXPROCS(b.processors)
		}
	}
}
