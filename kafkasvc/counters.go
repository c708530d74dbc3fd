package kafkasvc

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/local"
)

// counters are what a home has seen since its start, beside what its shards count for themselves. Counting is an
// atomic addition, so it goes on whether anybody looks or not; Home.Stats looks.
type counters struct {
	Generations atomic.Int64
	Alarms      sync.Map // kind -> *atomic.Int64
}

// shardCounters are those of one shard: the goroutines of two shards do not share them. Nothing but writes is counted
// for each message; the rest is for each batch, chunk or event.
type shardCounters struct {
	writes  [writeKinds][WriteOutcomes]atomic.Int64
	records [len(local.Tally{})]atomic.Int64 // of the log, as they were read

	tenures, fences, resends, gaps atomic.Int64

	batches histogram // records of an acknowledged batch
	appends histogram // from sending a copy of a batch to its acknowledgement, nanoseconds

	loads         histogram // from the start of a tenure to its opening, nanoseconds
	loadedRecords atomic.Int64
	loadedBytes   atomic.Int64
}

// writeKinds: messages and rooms.
const (
	writeMessage = iota
	writeRoom
	writeKinds
)

// WriteOutcome is what became of a write, as its sender was told.
type WriteOutcome uint8

// The outcomes of a write.
const (
	WriteStored      WriteOutcome = iota // and it was not there before
	WriteDuplicate                       // it was stored before
	WriteMutation                        // something else was stored before under the same id
	WriteUnknownRoom                     // there is no such room
	WriteInvalid                         // it breaks a rule
	WriteNotStored                       // not stored: the shard was lost, or the sender gave up in time
	WriteUnknown                         // perhaps stored
	WriteOverloaded                      // not stored: the queue was full
	WriteFailed                          // anything else
	WriteOutcomes                        // how many there are
)

func (o WriteOutcome) String() string {
	return [...]string{"stored", "duplicate", "mutation", "unknown_room", "invalid", "not_stored", "unknown", "overloaded", "failed"}[o]
}

// wrote counts the end of one write.
func (c *shardCounters) wrote(cmd *command, r *result) {
	kind := writeMessage
	if cmd.create {
		kind = writeRoom
	}
	c.writes[kind][outcomeOf(r)].Add(1)
}

func outcomeOf(r *result) WriteOutcome {
	if r.err == nil {
		if r.duplicate {
			return WriteDuplicate
		}
		return WriteStored
	}
	var (
		message  *domain.MessageMutationError
		room     *domain.ChatRoomMutationError
		unknown  *domain.UnknownChatRoomError
		overload *domain.OverloadedError
		invalid  *domain.InvalidInputError
	)
	switch err := r.err; {
	case errors.Is(err, errNotStored):
		return WriteNotStored
	case errors.Is(err, errUnknown):
		return WriteUnknown
	case errors.As(err, &message), errors.As(err, &room):
		return WriteMutation
	case errors.As(err, &unknown):
		return WriteUnknownRoom
	case errors.As(err, &overload):
		return WriteOverloaded
	case errors.As(err, &invalid):
		return WriteInvalid
	}
	return WriteFailed
}

// read counts records of the log by what they were: those between two tallies of one fold.
func (c *shardCounters) read(before, after local.Tally) {
	for v := range after {
		if n := after[v] - before[v]; n > 0 {
			c.records[v].Add(int64(n))
		}
	}
}

// histogram counts values in buckets, whose upper bounds are the caller's.
type histogram struct {
	buckets [bucketCount]atomic.Int64 // the last one: above all bounds
	sum     atomic.Int64
}

const bucketCount = 16

type bounds [bucketCount - 1]int64

func (h *histogram) observe(b bounds, value int64) {
	i := 0
	for i < len(b) && value > b[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(value)
}

func batchBounds() bounds {
	return bounds{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1536, 2048, 3072, maxBatchRecords}
}

func appendBounds() bounds {
	const ms = int64(time.Millisecond)
	return bounds{ms / 4, ms / 2, ms, 2 * ms, 5 * ms, 10 * ms, 20 * ms, 50 * ms, 100 * ms, 200 * ms, 500 * ms, 1000 * ms, 2000 * ms, 5000 * ms, 15000 * ms}
}

func loadBounds() bounds {
	const ms = int64(time.Millisecond)
	return bounds{5 * ms, 10 * ms, 20 * ms, 50 * ms, 100 * ms, 200 * ms, 500 * ms, 1000 * ms, 2000 * ms, 5000 * ms, 10000 * ms, 30000 * ms, 60000 * ms, 300000 * ms, 1800000 * ms}
}
