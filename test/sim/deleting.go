package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
)

// deleteRecords moves a log's start, as an administrator can. What it deletes was copied before. It leaves at least
// the last messages of each room: who deletes all of a room deletes the room, and what is deleted is not known any more
// when it is sent again.
func deleteRecords(w *world, r *rand.Rand, _ time.Duration) (bites int) {
	shard := int32(r.IntN(w.cfg.Shards))
	w.tail.mu.Lock()
	var offsets []int64
	for p := range w.tail.records {
		if p.shard == shard {
			offsets = append(offsets, p.offset)
		}
	}
	slices.Sort(offsets)
	const keep = 40 // messages of each room
	kept := map[uuid.UUID]int{}
	limit := int64(0)
	var v record.View
	for _, off := range slices.Backward(offsets) {
		if v.Decode(w.tail.records[position{shard, off}]) != nil || v.Kind != record.KindMessageAdded || !v.Counts(domain.Offset(off)) {
			continue
		}
		if kept[v.Room]++; kept[v.Room] == keep {
			limit = off // the lowest of those that have to stay, so far
		}
	}
	for _, room := range w.current().rooms {
		if int32(room.Shard) == shard && kept[room.ID] < keep {
			limit = 0
		}
	}
	w.tail.mu.Unlock()
	if limit == 0 {
		return 0
	}
	w.brokers.Lock()
	defer w.brokers.Unlock()
	before := w.cluster.PartitionInfo(messages, shard)
	if before == nil || before.LogStartOffset >= limit {
		return 0
	}
	to := before.LogStartOffset + 1 + r.Int64N(limit-before.LogStartOffset)
	if w.cluster.DeleteRecords(messages, shard, to) != nil {
		return 0
	}
	return 1
}
