package kafkasvc

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/failpoint"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

// Why a tenure ends before its generation does.
var (
	errFenced    = errors.New("another instance took the shard over")
	errCut       = errors.New("the log is not the one this owner knows: it was truncated or replaced")
	errUnsettled = errors.New("the fate of a batch could not be found out")
	errRefused   = errors.New("the broker refuses to store")
	errStore     = errors.New("the local store failed")
)

// Limits of one batch. A broker's default message.max.bytes is 1,048,588 (FACTS: 4,900 records of 200 bytes
// fit); start-up checks that the topic takes MaxBatchBytes.
const (
	MaxBatchBytes   = 900_000
	maxBatchRecords = 4_000
)

// writer appends to one shard during one tenure. Its goroutine is the only one that changes the shard's
// state. Exactly one produce request is outstanding; what arrives meanwhile goes into the next batch.
type writer struct {
	tenure *tenure
	fold   *local.Fold
	known  last
	now    func() time.Time
	wait   waits
	lg     *slog.Logger

	maxBytes  int
	failures  int // in a row, for the back-off
	inFlight  atomic.Pointer[batch]
	confirmed *atomic.Int64 // the next offset, for the group's lag
}

// run serves the queue until stop ends (the generation is over: no new batch) or the tenure breaks, which it
// says by the error.
func (w *writer) run(stop context.Context) error {
	var cmds []*command
	for {
		cmds = w.tenure.queue.take(stop, cmds[:0], maxBatchRecords, w.maxBytes)
		if len(cmds) == 0 {
			return context.Cause(stop)
		}
		if w.tenure.holds() != nil { // no batch starts without a valid lease
			refuse(cmds)
			continue
		}
		d, err := decide(cmds, w.tenure.shard.id, w.known.next, w, domain.MillisOf(w.now()))
		if err != nil {
			refuse(cmds)
			return errors.Join(errStore, err)
		}
		w.reply(d.replies)
		if len(d.batch.records) > 0 {
			if err := w.write(stop, d.batch); err != nil {
				refuse(d.later)
				return err
			}
		}
		w.putBack(d.later)
	}
}

func refuse(cs []*command) {
	for _, c := range cs {
		c.answer(result{err: errNotStored})
	}
}

// reply gives the answers that appended nothing. They are reads, so they leave only under the lease.
func (w *writer) reply(rs []reply) {
	if len(rs) == 0 {
		return
	}
	lost := w.tenure.holds() != nil
	for _, r := range rs {
		if lost {
			r.result = result{err: errNotStored}
		}
		r.command.answer(r.result)
	}
}

// room and find are what decide looks at.
func (w *writer) room(id uuid.UUID) (domain.ChatRoom, bool, error) {
	s, ok, err := w.tenure.rooms.state(id)
	if err != nil || !ok {
		return domain.ChatRoom{}, false, err
	}
	return s.room, true, nil
}

func (w *writer) find(room uuid.UUID, user, clientID string) (domain.Message, bool, error) {
	return w.tenure.store.Find(room, user, clientID)
}

// write sends b, identically, until its end is known; applies what counts, and answers (docs/ARCHITECTURE.md, the
// way of a message). An error ends the tenure; the batch's commands have their answer in every case, unless they
// went back to the queue to be decided again.
func (w *writer) write(stop context.Context, b *batch) error {
	w.inFlight.Store(b)
	defer w.inFlight.Store(nil)
	for {
		base, err := w.send(b)
		if err != nil {
			if done, err := w.unacknowledged(stop, b, err); done {
				return err
			}
			continue
		}
		w.failures = 0
		return w.acknowledged(stop, b, base)
	}
}

func (w *writer) send(b *batch) (domain.Offset, error) {
	ctx, cancel := context.WithTimeout(context.Background(), w.wait.answer(b.copies))
	defer cancel()
	if b.copies++; b.copies > 1 {
		w.tenure.shard.counts.resends.Add(1)
	}
	failpoint.Hit(failpoint.BeforeAppend, w.tenure.gate.self)
	sent := time.Now()
	base, err := w.tenure.shard.log.Append(ctx, b.records)
	failpoint.Hit(failpoint.AfterAppend, w.tenure.gate.self)
	if err == nil {
		w.tenure.shard.counts.appends.observe(appendBounds(), int64(time.Since(sent)))
		w.tenure.shard.counts.batches.observe(batchBounds(), int64(len(b.records)))
	}
	return base, err
}

// unacknowledged decides what follows a copy without a base offset: the identical batch again (done is
// false), or an end.
func (w *writer) unacknowledged(stop context.Context, b *batch, err error) (done bool, _ error) {
	b.unclear = b.unclear || !notWritten(err)
	if w.failures == 0 {
		w.lg.Warn("batch not acknowledged; sending it again", "offset", int64(b.base), "records", len(b.records), "err", err)
	}
	w.failures++
	switch {
	case b.unclear && stop.Err() == nil && !permanent(err):
		if w.wait.backOff(stop, w.failures-1) == nil {
			return false, nil
		}
		fallthrough // stopped while waiting: it was sent, and nothing will tell
	case b.unclear:
		b.fail(errUnknown)
		return true, errUnsettled
	case stop.Err() != nil:
		b.fail(errNotStored)
		return true, context.Cause(stop)
	case errors.Is(err, kafka.MessageSizeTooLarge) && len(b.records) > 1:
		w.maxBytes = max(w.maxBytes/2, 2*domain.MaxTextBytes)
		w.again(b)
		return true, nil
	case permanent(err):
		b.fail(errNotStored)
		return true, errors.Join(errRefused, err)
	}
	// Every copy was refused, so nothing is outstanding: decide anew, without those who give up meanwhile.
	w.again(b)
	_ = w.wait.backOff(stop, w.failures-1) // run looks at stop
	return true, nil
}

// again returns the commands of a batch that is void, or was never stored, to the front of the queue.
func (w *writer) again(b *batch) {
	w.putBack(b.settle(func(int) (result, bool) { return result{}, true }))
}

func (w *writer) putBack(cs []*command) {
	if !w.tenure.queue.putBack(cs) {
		refuse(cs)
	}
}

// acknowledged judges the base offset of the latest copy.
func (w *writer) acknowledged(stop context.Context, b *batch, base domain.Offset) error {
	switch landed(b, base) {
	case landedBefore:
		b.fail(errUnknown)
		return errCut
	case landedWhereNamed:
		if b.copies > 1 { // time has passed: is it still the same log below?
			recs, err := w.read(stop, w.known.next-1, w.known.next)
			if err != nil || record.Hash(recs[0].value) != w.known.hash {
				b.fail(errUnknown)
				return gapError(err)
			}
		}
		recs := make([]logRecord, len(b.records))
		for i, r := range b.records {
			recs[i] = logRecord{base + domain.Offset(i), r.Value}
		}
		return w.apply(b, recs, nil)
	}
	end := base + domain.Offset(len(b.records))
	recs, err := w.read(stop, w.known.next-1, end)
	if err != nil {
		b.fail(errUnknown)
		return gapError(err)
	}
	w.tenure.shard.counts.gaps.Add(1)
	g := judgeGap(w.known, b, end, recs, w.tenure.shard.ids.mine)
	w.lg.Info("batch landed elsewhere; gap read", "offset", int64(b.base), "landed", int64(base), "fenced", g.fenced, "cut", g.cut)
	if g.cut {
		b.fail(errUnknown)
		return errCut
	}
	if err := w.apply(b, recs[1:g.upTo-w.known.next+1], &g); err != nil {
		return err
	}
	if g.fenced {
		return errFenced
	}
	return nil
}

func gapError(err error) error {
	if err != nil && !errors.Is(err, errGap) {
		return err
	}
	return errCut
}

// apply folds records that lie in the log now into the local store, in one commit, and answers. g is nil when
// all of the batch counts.
func (w *writer) apply(b *batch, recs []logRecord, g *gap) error {
	var v record.View
	before := w.fold.Tally()
	for _, r := range recs {
		w.fold.Apply(r.offset, r.value, &v)
	}
	if g != nil { // else they are our own, not read
		w.tenure.shard.counts.read(before, w.fold.Tally())
	}
	failpoint.Hit(failpoint.BeforeCommit, w.tenure.gate.self)
	err := w.fold.Commit(w.tenure.commit)
	failpoint.Hit(failpoint.AfterCommit, w.tenure.gate.self)
	counts := func(i int) bool { return g == nil || g.stored[i] }
	if err == nil {
		p := w.fold.Position()
		w.known = last{p.Next, p.Hash}
		w.confirmed.Store(int64(p.Next))
		w.advance(b, counts)
	} else if !errors.Is(err, errNotCurrent) {
		w.tenure.lock("the local store failed") // before anybody can read what is not there
	}
	w.putBack(b.settle(func(i int) (result, bool) {
		if counts(i) {
			return b.pending[i].stored(), false
		}
		// Void for ever: something else lies where it names.
		return result{err: errNotStored}, !g.fenced && err == nil
	}))
	if err != nil && !errors.Is(err, errNotCurrent) {
		return errors.Join(errStore, err)
	}
	return err
}

// advance brings the rooms in memory up to the commit.
func (w *writer) advance(b *batch, counts func(i int) bool) {
	touched := make(map[uuid.UUID]domain.ChatRoom, 8)
	for i := range b.pending {
		p := &b.pending[i]
		switch {
		case !counts(i):
		case p.create:
			touched[p.info.ID] = domain.ChatRoom{Info: p.info, LastAt: p.info.CreatedAt}
		default:
			room, ok := touched[p.message.Room]
			if !ok {
				room, _, _ = w.room(p.message.Room) // in memory: it was there when the batch was decided
			}
			room.Apply(p.message.Serial, p.message.SentAt)
			touched[p.message.Room] = room
		}
	}
	w.tenure.rooms.apply(touched)
}
