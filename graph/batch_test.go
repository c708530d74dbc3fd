package graph

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/chathome/chathome/domain"
)

func TestBatchEnd(t *testing.T) {
	for _, tc := range []struct{ from, upTo, tip, want domain.Serial }{
		{0, 0, 0, 0}, {5, 0, 5, 5}, {5, 0, 6, 6}, {5, 0, 1005, 1005}, {5, 0, 1006, 960}, {960, 0, 3000, 1920},
		{7, 0, 3, 7}, // the feed is behind what the bounds told
		{0, 10, 10, 10}, {0, 64, 100, 64}, {0, 65, 100, 64}, {63, 100, 100, 64}, {64, 100, 100, 100}, {64, 200, 300, 128}, {1, 200, 300, 64}, {10, 5, 20, 10}, {10, 50, 20, 20},
	} {
		if got := batchEnd(tc.from, tc.upTo, tc.tip); got != tc.want {
			t.Errorf("from %d up to %d of %d: %d, want %d", tc.from, tc.upTo, tc.tip, got, tc.want)
		}
	}
}

func TestBatchEnd_AdvancesWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := domain.Serial(rapid.Int64Range(0, 1<<40).Draw(t, "from"))
		tip := domain.Serial(rapid.Int64Range(0, 1<<40).Draw(t, "tip"))
		if rapid.Bool().Draw(t, "near") {
			tip = from + domain.Serial(rapid.Int64Range(-5, 3000).Draw(t, "distance"))
		}
		upTo := domain.Serial(0)
		if rapid.Bool().Draw(t, "replay") {
			upTo = max(1, from+domain.Serial(rapid.Int64Range(-5, 3000).Draw(t, "up to")))
		}
		end := batchEnd(from, upTo, tip)
		bound := tip
		if upTo > 0 {
			bound = min(tip, upTo)
		}
		switch {
		case end < from:
			t.Fatalf("back to %d", end)
		case bound > from && end == from:
			t.Fatal("no advance")
		case end > max(from, bound) || end-from > batchCap:
			t.Fatalf("too far: %d", end)
		case end < bound && end != from && end%replayPage != 0:
			t.Fatalf("readers never meet at %d", end)
		}
	})
}
