package feed_test

import (
	"errors"
	"testing"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/feed"
)

// Who watches is woken once for each growth and for the end, and never again after its stop; a wake may stop its own watch.
func TestFeed_Wakes(t *testing.T) {
	f := feed.New(5, nil)
	woken, stopped := 0, 0
	defer f.Watch(func() { woken++ })()
	var stop func()
	stop = f.Watch(func() { stopped++; stop() })
	for _, step := range []struct {
		do    func()
		tip   domain.Serial
		woken int
	}{
		{func() { f.Advance(7) }, 7, 1},
		{func() { f.Advance(7) }, 7, 1},
		{func() { f.Advance(6) }, 7, 1},
		{f.Step, 8, 2},
		{func() { f.End(errors.New("over")) }, 8, 3},
	} {
		step.do()
		if f.Tip() != step.tip || woken != step.woken || stopped != 1 {
			t.Errorf("tip %d, woken %d and %d times; want %d, %d and 1", f.Tip(), woken, stopped, step.tip, step.woken)
		}
	}
	late := 0
	f.Watch(func() { late++ })
	if late != 1 {
		t.Errorf("who comes after the end was woken %d times", late)
	}
}

// The first end is the last word, whether somebody says it or the check.
func TestFeed_EndsOnce(t *testing.T) {
	over, later := errors.New("over"), errors.New("later")
	var check error
	f := feed.New(0, func() error { return check })
	if f.Err() != nil || f.Ended() {
		t.Fatal("it ended before it began")
	}
	check = over
	if f.Ended() {
		t.Error("Ended asked the check")
	}
	if f.Err() != over || !f.Ended() {
		t.Error("the check's word did not end it")
	}
	check = nil
	f.End(later)
	if f.Err() != over {
		t.Errorf("the last word changed to %v", f.Err())
	}
}
