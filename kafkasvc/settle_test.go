package kafkasvc

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/record"
)

// The log was cut below what the owner knows and grew again: everything in the gap looks right, but the record that the
// gap begins behind is another one.
func TestJudgeGap_HoldsTheRecordBelowAgainstItsHash(t *testing.T) {
	below, others := []byte("the record that the owner knows"), []byte("another one")
	b := &batch{base: 8, records: []kafkalog.Record{{Value: []byte("mine")}}}
	known := last{next: 8, hash: record.Hash(below)}
	mine := func(uuid.UUID) bool { return true }
	for _, tc := range []struct {
		name  string
		below []byte
		cut   bool
	}{{"the same", below, false}, {"another", others, true}} {
		t.Run(tc.name, func(t *testing.T) {
			g := judgeGap(known, b, 10, []logRecord{{7, tc.below}, {8, []byte("rubbish")}, {9, []byte("rubbish")}}, mine)
			if g.cut != tc.cut || g.fenced {
				t.Errorf("cut %t, fenced %t; want cut %t", g.cut, g.fenced, tc.cut)
			}
		})
	}
}

// Whoever holds a room of a tenure that has ended is answered at once, not when it loses patience.
func TestTenure_QueueClosesAtTheEnd(t *testing.T) {
	ended := &tenure{queue: newQueue(10, 1<<20), inFlight: new(atomic.Pointer[batch])}
	waiting := newCommand(uuid.New())
	if err := ended.queue.offer(waiting); err != nil {
		t.Fatal(err)
	}
	ended.refuseWaiting()
	if r := <-waiting.done; !errors.Is(r.err, errNotStored) {
		t.Errorf("what waited was answered %v", r.err)
	}
	if err := ended.queue.offer(newCommand(uuid.New())); !errors.Is(err, errNotStored) {
		t.Errorf("what comes later is answered %v", err)
	}
}
