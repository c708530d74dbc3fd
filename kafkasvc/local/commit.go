package local

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
)

// Commit writes what was applied since the last one, and the position, in one batch. The batch is built first;
// then guard is called, and calls commit (which only hands the batch to Pebble, unsynced) inside the critical
// section of the tenure, or answers an error without calling it. A nil guard always commits.
//
// After an error the fold is of no use; what was committed before stays. The errors are guard's, ErrFault,
// ErrCorrupt and ErrStale.
func (f *Fold) Commit(guard func(commit func() error) error) error {
	if err := f.Wait(); err != nil {
		return err
	}
	if f.pos.Next == f.base.Next {
		if guard != nil { // the caller learns that its tenure is over also where there is nothing to write
			f.err = guard(func() error { return nil })
		}
		return f.err
	}
	l, err := f.seal()
	if err == nil {
		err = f.commit(f.pending, l, guard)
	}
	if f.err = err; err != nil {
		return err
	}
	f.pending.clear()
	f.spare = nil
	if f.rooms.full() {
		f.rooms.clear()
	}
	return nil
}

// CommitBeside is Commit on a goroutine of its own, while Apply goes on: the next commit and Wait wait for it
// and return its error. The fold holds two sets of buffers then.
func (f *Fold) CommitBeside(guard func(commit func() error) error) error {
	if err := f.Wait(); err != nil {
		return err
	}
	if f.pos.Next == f.base.Next || f.rooms.full() { // rooms can be forgotten only when all is committed
		return f.Commit(guard)
	}
	l, err := f.seal()
	if err != nil {
		f.err = err
		return err
	}
	p := f.pending
	f.pending, f.spare = f.spare, nil
	if f.pending == nil {
		f.pending = &pending{}
	}
	f.beside = make(chan error, 1)
	go func() {
		err := f.commit(p, l, guard)
		p.clear()
		f.spare = p // seen behind the channel
		f.beside <- err
	}()
	return nil
}

// Wait returns when no commit is under way. The error is the fold's: see Commit.
func (f *Fold) Wait() error {
	if f.beside != nil {
		if err := <-f.beside; f.err == nil {
			f.err = err
		}
		f.beside = nil
	}
	return f.err
}

// seal ends what the next commit writes, and says what the position's row will hold.
func (f *Fold) seal() (link, error) {
	if len(f.pending.text) > 1<<30 {
		return link{}, errFoldTooLarge
	}
	if f.pos.Empty() {
		build, err := drawBuild()
		if err != nil {
			return link{}, err
		}
		f.pos.build = build
	}
	f.pos.Hash = record.Hash(f.last)
	l := link{Position: f.pos, from: f.base.Next}
	f.base = f.pos
	f.pending.seal()
	return l, nil
}

func (f *Fold) commit(p *pending, l link, guard func(commit func() error) error) error {
	batch, err := f.build(p, l)
	if err != nil {
		return err
	}
	done := false
	commit := func() error {
		done = true
		return f.write(batch, l.Next)
	}
	if guard == nil {
		return commit()
	}
	// The store is not held while guard waits for the tenure: whoever holds the tenure may be about to read.
	err = guard(commit)
	if done {
		return err
	}
	if e := batch.Close(); err == nil {
		err = cmp.Or(e, errNotCommitted)
	}
	return err
}

// build makes the batch. It is not bound to the database staying open.
func (f *Fold) build(p *pending, l link) (*pebble.Batch, error) {
	db, release, err := f.sh.store.use(f.sh.epoch)
	if err != nil {
		return nil, err
	}
	defer release()
	batch := db.NewBatchWithSize(p.batchSize())
	p.sort()
	writePosition(f.sh, batch, l)
	p.write(f.sh, batch)
	return batch, nil
}

// write hands the batch to Pebble, if the data that it continues are still there.
func (f *Fold) write(batch *pebble.Batch, next domain.Offset) error {
	db, release, err := f.sh.store.use(f.sh.epoch)
	if err != nil {
		return errors.Join(err, batch.Close())
	}
	defer release()
	f.sh.state.writes.Lock()
	defer f.sh.state.writes.Unlock()
	if drops, _, _ := f.sh.state.get(); drops != f.drops {
		return errors.Join(ErrStale, batch.Close())
	}
	if err := db.apply(batch); err != nil {
		return fmt.Errorf("commit shard %d: %w", f.sh.id, err)
	}
	f.sh.state.committed(next)
	return nil
}

// errFoldTooLarge: the caller never committed. Positions in the buffers have 32 bits.
var errFoldTooLarge = errors.New("a fold of more than 1 GiB was not committed")

var errNotCommitted = errors.New("the guard neither committed nor refused")

func writePosition(sh *Shard, batch *pebble.Batch, l link) {
	op := batch.MergeDeferred(shardKeyLen, linkLen)
	appendShardKey(op.Key[:0], sh.id, tableChain)
	l.append(op.Value[:0])
	mustFinish(op)
}

// batchSize is an estimate of the bytes of the batch.
func (p *pending) batchSize() int {
	return len(p.text) + len(p.pages)*(pageKeyLen+12) + len(p.index)*8 + len(p.buckets)*(indexKeyLen+8) +
		len(p.names)*(roomKeyLen+16) + len(p.states)*(roomKeyLen+24) + 128
}

// sort puts rows into the order of their keys: Pebble sorts a large batch too, but is slow at it.
func (p *pending) sort() {
	slices.SortFunc(p.buckets, func(a, b pendingBucket) int {
		return cmp.Or(cmp.Compare(a.level, b.level), cmp.Compare(a.number, b.number))
	})
	slices.SortFunc(p.names, func(a, b pendingName) int { return bytes.Compare(a.room[:], b.room[:]) })
	slices.SortFunc(p.pages, func(a, b pendingPage) int {
		return cmp.Or(bytes.Compare(a.room[:], b.room[:]), cmp.Compare(a.page, b.page))
	})
	slices.SortFunc(p.states, func(a, b pendingState) int { return bytes.Compare(a.room[:], b.room[:]) })
}

// write puts everything into the batch. The rows of pages and buckets are put together in place, tables in
// the order of their keys; sort comes first.
func (p *pending) write(sh *Shard, batch *pebble.Batch) {
	for i := range p.buckets {
		pb := &p.buckets[i]
		op := batch.MergeDeferred(indexKeyLen, pb.size)
		appendIndexKey(op.Key[:0], sh.id, pb.bucket)
		row := op.Value[:0]
		for n := pb.head; n != none; n = p.index[n].next {
			row = appendIndexEntry(row, p.index[n].print, p.index[n].serial)
		}
		mustFinish(op)
	}
	for i := range p.names {
		n := &p.names[i]
		var head [binary.MaxVarintLen64]byte
		k := binary.PutVarint(head[:], int64(n.created))
		op := batch.SetDeferred(roomKeyLen, k+int(n.size))
		appendRoomKey(op.Key[:0], sh.id, tableName, &n.room)
		appendRoomName(op.Value[:0], p.text[n.from:n.from+n.size], n.created)
		mustFinish(op)
	}
	for i := range p.pages {
		pp := &p.pages[i]
		op := batch.MergeDeferred(pageKeyLen, pp.size)
		appendPageKey(op.Key[:0], sh.id, &pp.room, pp.page)
		row := op.Value[:0]
		for n := pp.head; n != none; n = p.entries[n].next {
			e := p.entries[n]
			row = append(row, p.text[e.from:e.from+e.size]...)
		}
		mustFinish(op)
	}
	for i := range p.states {
		s := &p.states[i]
		var buf [4 * binary.MaxVarintLen64]byte
		row := s.append(buf[:0])
		op := batch.SetDeferred(roomKeyLen, len(row))
		appendRoomKey(op.Key[:0], sh.id, tableRoom, &s.room)
		copy(op.Value, row)
		mustFinish(op)
	}
}

// mustFinish: only a batch with an index can fail, and ours have none.
func mustFinish(op *pebble.DeferredBatchOp) {
	if err := op.Finish(); err != nil {
		panic(err)
	}
}

func drawBuild() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("draw a build number: %w", err)
	}
	return binary.BigEndian.Uint64(b[:]) | 1, nil // never 0
}
