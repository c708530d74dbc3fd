package directory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chathome/chathome/domain"
)

const (
	// shakyFor is how long after a fault the end that a broker names is not believed: a new leader may name an
	// end below what the old one acknowledged. Then the round appends a record and reads up to it.
	shakyFor = 30 * time.Second
	// barrierPause bounds how often that happens.
	barrierPause = 50 * time.Millisecond
	// lifeFresh is how long a look at the first record serves.
	lifeFresh = time.Second
)

// round is one reading of the topic to its present end, for everybody who asked before it began.
type round struct {
	end   bool          // read to the end; without it: look at the first record only
	life  bool          // look at the first record too
	done  chan struct{} // closed when it ended
	err   error         // set before done
	epoch uint64        // the view that reached the end
}

// catchUp returns once everything that was acknowledged in the topic before the call is in the view. The epoch is the
// view's: if it is still the same after the caller looked something up, the view was not dropped between. With life,
// that the view is of the topic's present life is made sure of too.
func (d *Directory) catchUp(ctx context.Context, life bool) (epoch uint64, err error) {
	return d.join(ctx, true, life)
}

// checkLife makes sure that the view is of the topic's present life.
func (d *Directory) checkLife(ctx context.Context) error {
	_, err := d.join(ctx, false, true)
	return err
}

// join waits for a round that begins after the call.
func (d *Directory) join(ctx context.Context, end, life bool) (epoch uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.LookupTimeout)
	defer cancel()
	r := d.ask(end, life)
	select {
	case <-r.done:
		return r.epoch, r.err
	case <-ctx.Done():
		return 0, fmt.Errorf("read the directory to its end: %w", ctx.Err())
	case <-d.stopped:
		return 0, errStopped
	}
}

// ask has a round begin.
func (d *Directory) ask(end, life bool) *round {
	d.mu.Lock()
	if d.next == nil {
		d.next = &round{done: make(chan struct{})}
	}
	r := d.next
	r.end, r.life = r.end || end, r.life || life
	d.mu.Unlock()
	select {
	case d.kicked <- struct{}{}:
	default:
	}
	return r
}

// rounds runs them, one at a time.
func (d *Directory) rounds(ctx context.Context) {
	reader := d.topic.Reader()
	defer func() {
		if err := reader.Close(); err != nil {
			d.cfg.Log.Warn("closing the directory's reader failed", "err", err)
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.kicked:
		}
		d.mu.Lock()
		r := d.next
		d.next = nil
		d.mu.Unlock()
		if r == nil {
			continue
		}
		d.stats.rounds.Add(1)
		rctx, cancel := context.WithTimeout(ctx, d.cfg.LookupTimeout)
		barriers := d.stats.barriers.Load()
		r.epoch, r.err = d.round(rctx, reader, r)
		cancel()
		close(r.done)
		if barriers != d.stats.barriers.Load() && !sleep(ctx, barrierPause) {
			return
		}
	}
}

func (d *Directory) round(ctx context.Context, reader Reader, r *round) (epoch uint64, err error) {
	began := time.Now()
	for {
		var pos Position
		if err = d.await(ctx, func() bool { pos, epoch = d.pos, d.epoch; return d.follows }); err != nil {
			return 0, errors.Join(err, d.Ready())
		}
		if r.life && !d.lifeSeen() {
			same, err := d.sameLife(ctx, reader, pos)
			if err != nil {
				d.fault()
				return 0, fmt.Errorf("read the first record: %w", err)
			}
			if !same {
				d.reattach(epoch)
				continue
			}
			d.mu.Lock()
			d.seenAt = time.Now()
			d.mu.Unlock()
		}
		if !r.end {
			return epoch, nil
		}
		end, err := d.presentEnd(ctx, pos)
		if err != nil {
			return 0, err
		}
		same := true
		err = d.await(ctx, func() bool {
			same = d.epoch == epoch
			return !same || d.follows && d.pos.Next >= end
		})
		if err != nil {
			return 0, errors.Join(err, d.Ready())
		}
		if same {
			d.update(func() {
				if d.epoch == epoch {
					d.whole, d.readAt = true, began
				}
			})
			return epoch, nil
		}
	}
}

// presentEnd is an offset that everything acknowledged so far lies below.
func (d *Directory) presentEnd(ctx context.Context, pos Position) (end domain.Offset, err error) {
	qctx, cancel := context.WithTimeout(ctx, d.cfg.RPCTimeout)
	defer cancel()
	if !d.shaky() {
		_, end, err = d.topic.Bounds(qctx)
		if err == nil && end >= pos.Next {
			return end, nil
		}
		d.fault()
	}
	return d.appendBarrier(ctx, pos.Life)
}

// appendBarrier appends a record that means nothing: everything acknowledged before lies below the end it returns.
func (d *Directory) appendBarrier(ctx context.Context, life Life) (end domain.Offset, err error) {
	value, err := encodeBarrier(life.Home)
	if err != nil {
		return 0, err
	}
	d.stats.barriers.Add(1)
	base, err := d.append(ctx, [][]byte{value})
	if err != nil {
		return 0, fmt.Errorf("append a barrier: %w", err)
	}
	return base + 1, nil
}

// reattach makes the tail of this view look at the first record again.
func (d *Directory) reattach(epoch uint64) {
	d.update(func() {
		if d.epoch == epoch && d.detach != nil {
			d.follows = false
			d.why = errors.New("the first record is not the known one")
			d.detach()
		}
	})
}

func (d *Directory) lifeSeen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.seenAt.IsZero() && time.Since(d.seenAt) < lifeFresh
}

// fault notes that Kafka did not behave.
func (d *Directory) fault() { d.lost.Store(time.Now().UnixNano()) }

func (d *Directory) shaky() bool {
	at := d.lost.Load()
	return at != 0 && time.Since(time.Unix(0, at)) < shakyFor
}
