package bubbletest

import (
	"runtime"
	"testing"

	"github.com/chathome/chathome/internal/racetest"
)

// Bubbles beside and behind each other have one processor under the race detector, and all is as before when the last
// one is over.
func TestTest_HasOneProcessorUnderTheRaceDetector(t *testing.T) {
	const many = 3
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(many))
	want := many
	if racetest.Enabled {
		want = 1
	}
	for range 2 {
		first, second := oneProcessor(), oneProcessor()
		first()
		Test(t, func(t *testing.T) {
			if n := runtime.GOMAXPROCS(0); n != want {
				t.Errorf("%d processors, want %d", n, want)
			}
		})
		if n := runtime.GOMAXPROCS(0); n != want {
			t.Errorf("%d processors while one is under way, want %d", n, want)
		}
		second()
		if n := runtime.GOMAXPROCS(0); n != many {
			t.Errorf("%d processors afterwards, want %d", n, many)
		}
	}
}
