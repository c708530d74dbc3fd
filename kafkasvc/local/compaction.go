package local

import "sync/atomic"

// compaction lets Pebble's compactions wait while shards load: loading reads little, and its rows are rewritten once
// behind it instead of over and over beside it.
type compaction struct{ loads atomic.Int64 }

// How many layers of tables may wait for compaction. A look-up may have to read in each of them.
const (
	tablesUsual   = 8  // fewer rewrite more when many small rooms are loaded
	tablesWaiting = 32 // while shards load
)

// concurrency is Pebble's question how many compactions may run: normally, and with so many layers waiting
// (L0CompactionConcurrency). It is asked anew whenever a memtable has been written.
func (c *compaction) concurrency() (lower, upper int) {
	if c.loads.Load() > 0 {
		return 0, 1
	}
	return 1, 1
}

// Loading says that somebody loads a shard until done is called.
func (sh *Shard) Loading() (done func()) {
	c := &sh.store.compaction
	c.loads.Add(1)
	return func() {
		if c.loads.Add(-1) == 0 {
			sh.compactLater()
		}
	}
}

// compactLater lets Pebble ask again where layers have waited, by writing the memtable. Whatever fails shows elsewhere.
func (sh *Shard) compactLater() {
	db, release, err := sh.store.use(sh.epoch)
	if err != nil {
		return
	}
	defer release()
	if db.Metrics().Levels[0].Sublevels >= tablesUsual {
		_, _ = db.AsyncFlush()
	}
}
