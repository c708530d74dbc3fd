package kafkasvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/failpoint"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

// errHole: offsets are missing in the log and nothing explains it.
var errHole = errors.New("the log has a hole that nothing explains")

// budget shares the memory that loading may hold among the shards that load now.
type budget struct {
	bytes  int
	active atomic.Int64
}

const minShare = 1 << 20

func (b *budget) join() (leave func()) {
	b.active.Add(1)
	return func() { b.active.Add(-1) }
}

// commit is how much is committed at once. Beside it lie as much that is being committed, and its batch.
func (b *budget) commit() int { return b.share() * 2 / 3 }

func (b *budget) share() int { return max(minShare, b.bytes/int(max(1, b.active.Load()))) }

// loader brings a shard's local data up to its takeover.
type loader struct {
	tenure  *tenure
	budget  *budget
	wait    waits
	lg      *slog.Logger
	alarm   func(kind string)
	rooms   bool   // rooms were created in what was loaded
	alien   uint64 // records in what was loaded that are none of ours
	misfits uint64 // records that count and do not fit those before them
}

// stale says why local data cannot be the start of loading; "" if they can. What lies at
// their end in the log is compared later, when it is read.
func stale(p local.Position, logStart, takeover domain.Offset) string {
	switch {
	case p.Empty():
		return "there are none"
	case takeover < p.Next:
		return "the takeover landed below them: the log was truncated"
	case p.Start != logStart:
		return "the log's start has moved"
	case p.Next <= logStart:
		return "the log starts behind them"
	case p.Kinds < record.KnownKinds:
		return "they were built by a version that knew fewer kinds of record"
	}
	return ""
}

// load reads from the locally stored offset up to the takeover and returns the fold to go on with. It ends
// with the takeover applied, or with an error: of ctx, errHole, errStore, errCut, errNotCurrent.
func (l *loader) load(ctx context.Context, takeover domain.Offset) (*local.Fold, error) {
	defer l.budget.join()()
	defer l.tenure.shard.store().Loading()()
	r := l.tenure.shard.log.Reader()
	defer r.Close()
	for attempt := 0; ; attempt++ {
		f, again, err := l.try(ctx, r, takeover)
		if err == nil {
			if l.alien > 0 {
				l.lg.Warn("the log holds records that this program does not know: of another program, or of a newer version of this one; they were skipped", "records", l.alien)
			}
			if l.misfits > 0 && f.Position().Start == 0 { // behind records that were deleted nothing fits
				l.lg.Error("the log lost records that were acknowledged: some that count do not fit those before them; every reader treats them alike", "records", l.misfits)
				l.alarm(alarmMisfit)
			}
			return f, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !again {
			return nil, err
		}
		l.lg.Warn("loading starts over", "err", err)
		if err := l.wait.backOff(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// try loads once. again: what went wrong may go right from a new look at the log's bounds.
func (l *loader) try(ctx context.Context, r reader, takeover domain.Offset) (f *local.Fold, again bool, err error) {
	start, _, err := l.tenure.shard.log.Bounds(ctx)
	if err != nil {
		return nil, true, fmt.Errorf("ask for the log's bounds: %w", err)
	}
	store := l.tenure.shard.store()
	at, err := store.Position()
	why := stale(at, start, takeover)
	if err != nil {
		why = "they cannot be read: " + err.Error()
	}
	if why == "" {
		switch err := l.compare(ctx, r, at); {
		case errors.Is(err, errCut):
			why = "the log does not hold their last record"
		case err != nil:
			return nil, true, err
		}
	}
	if why != "" {
		level := slog.LevelWarn
		if at.Next > takeover {
			l.alarm(alarmTruncated)
			level = slog.LevelError
		}
		if !at.Empty() || err != nil {
			l.lg.Log(ctx, level, "local data dropped; loading from the log's start", "reason", why, "next", int64(at.Next), "start", int64(start))
		}
		if err := l.tenure.commit(store.Drop); err != nil {
			return nil, false, storeError(err)
		}
		store, at = l.tenure.shard.store(), local.Position{Next: start, Start: start}
	}
	l.tenure.store = store
	l.tenure.loaded.Store(int64(at.Next))
	l.tenure.begun.Store(true)
	f = store.NewFold(at)
	err = l.stream(ctx, r, f, takeover)
	return f, errors.Is(err, kafkalog.ErrOutOfRange), err
}

func storeError(err error) error {
	if errors.Is(err, errNotCurrent) {
		return err
	}
	return errors.Join(errStore, err)
}

// compare reads the record that the local data end with. errCut: the log holds another one, or none.
func (l *loader) compare(ctx context.Context, r reader, at local.Position) error {
	same, seen := false, false
	var wait patience
	for attempt := 0; !seen; attempt++ {
		err := r.Read(ctx, at.Next-1, func(off domain.Offset, value []byte) bool {
			seen = true
			same = off == at.Next-1 && record.Hash(value) == at.Hash
			return false
		})
		switch {
		case seen:
		case errors.Is(err, kafkalog.ErrOutOfRange), wait.out(err == nil):
			return errCut
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			if err := l.wait.backOff(ctx, attempt); err != nil {
				return err
			}
		}
	}
	if !same {
		return errCut
	}
	return nil
}

// chunk carries records from the goroutine that reads to the one that folds and stores.
type chunk struct {
	first  domain.Offset
	values []byte
	ends   []int // of each value in values
}

const (
	chunkBytes    = 256 << 10
	chunkRecords  = 4096
	minChunks     = 2
	maxChunks     = 16 // the folding goroutine goes on while the broker makes the next answer
	chunksOfShare = 4  // what they may hold: a part of the share of the budget
)

// chunksAhead is how many chunks may be made where a shard's share is so many bytes.
func chunksAhead(share int) int {
	return min(max(share/chunksOfShare/chunkBytes, minChunks), maxChunks)
}

// stream reads up to the takeover and folds, on two goroutines.
func (l *loader) stream(ctx context.Context, r reader, f *local.Fold, takeover domain.Offset) error {
	ctx, cancel := context.WithCancelCause(ctx)
	full, empty := make(chan *chunk, maxChunks), make(chan *chunk, maxChunks)
	done := make(chan error, 1)
	go func() {
		err := l.read(ctx, r, f.Position().Next, takeover, full, empty)
		close(full)
		done <- err
	}()
	err := l.fold(f, full, empty, takeover)
	cancel(err)
	for range full { // the reader may be waiting to hand one over
	}
	if rerr := <-done; err == nil {
		err = rerr
	}
	return err
}

// read fills chunks with the records [from, takeover].
func (l *loader) read(ctx context.Context, r reader, from, takeover domain.Offset, full chan<- *chunk, empty <-chan *chunk) error {
	next, hole := from, domain.Offset(-1)
	made := 0
	take := func() *chunk {
		if len(empty) == 0 && made < chunksAhead(l.budget.share()) {
			made++
			return &chunk{first: next}
		}
		select {
		case c := <-empty:
			c.first, c.values, c.ends = next, c.values[:0], c.ends[:0]
			return c
		case <-ctx.Done():
			return nil
		}
	}
	give := func(c *chunk) bool {
		select {
		case full <- c:
			return true
		case <-ctx.Done():
			return false
		}
	}
	c := take()
	var wait patience
	for failures := 0; c != nil && next <= takeover; {
		before := next
		err := r.Read(ctx, next, func(off domain.Offset, value []byte) bool {
			if off != next {
				hole = off
				return false
			}
			c.values = append(c.values, value...)
			c.ends = append(c.ends, len(c.values))
			next++
			if len(c.values) >= chunkBytes || len(c.ends) >= chunkRecords || next > takeover {
				if !give(c) {
					c = nil
					return false
				}
				if next <= takeover {
					c = take()
				}
			}
			return c != nil && next <= takeover
		})
		switch {
		case next > takeover || c == nil:
		case hole >= 0:
			return fmt.Errorf("%w: offset %d follows %d", errHole, hole, next-1)
		case errors.Is(err, kafkalog.ErrOutOfRange):
			return err
		case wait.out(err == nil && next == before):
			return fmt.Errorf("%w: it ends at %d, below the takeover at %d", errCut, next, takeover)
		case err != nil && next == before:
			if failures == 0 {
				l.lg.Warn("cannot read the log; trying again", "offset", int64(next), "err", err)
			}
			if err := l.wait.backOff(ctx, failures); err != nil {
				return err
			}
			failures++
		default:
			failures = 0
		}
	}
	if next <= takeover {
		return context.Cause(ctx)
	}
	return nil
}

// fold applies chunks, and commits beside that whenever the buffers reach their share of the budget.
func (l *loader) fold(f *local.Fold, full <-chan *chunk, empty chan<- *chunk, takeover domain.Offset) error {
	defer func() { _ = f.Wait() }() // the loader that tries again may drop what is being committed
	t := l.tenure
	var v record.View
	var last uuid.UUID
	for c := range full {
		from, before := 0, f.Tally()
		for i, end := range c.ends {
			f.Apply(c.first+domain.Offset(i), c.values[from:end], &v)
			l.rooms = l.rooms || v.Kind == record.KindChatRoomCreated
			from = end
		}
		l.tally(before, f.Tally())
		counts := &t.shard.counts
		counts.loadedRecords.Add(int64(len(c.ends)))
		counts.loadedBytes.Add(int64(len(c.values)))
		if at := c.first + domain.Offset(len(c.ends)); at > takeover {
			last = v.Tenure
		}
		empty <- c
		failpoint.Hit(failpoint.WhileLoading, t.gate.self)
		if f.Bytes() >= l.budget.commit() {
			if err := f.CommitBeside(t.commit); err != nil {
				return storeError(err)
			}
		}
		t.loaded.Store(int64(f.Position().Next))
	}
	if f.Position().Next <= takeover {
		// Cut short, and the reader says why. What was read needs not be read again.
		if err := f.Commit(t.commit); err != nil {
			return storeError(err)
		}
		return nil
	}
	if last != t.id {
		return fmt.Errorf("%w: offset %d does not hold the takeover that was acknowledged there", errCut, takeover)
	}
	if err := f.Commit(t.commit); err != nil {
		return storeError(err)
	}
	return nil
}

// tally counts what a chunk held.
func (l *loader) tally(before, after local.Tally) {
	l.tenure.shard.counts.read(before, after)
	for v := range local.Verdict(len(after)) {
		n := after[v] - before[v]
		switch {
		case v == local.Rubbish, v == local.UnknownKind:
			l.alien += n
		case v.Anomaly():
			l.misfits += n
		}
	}
}
