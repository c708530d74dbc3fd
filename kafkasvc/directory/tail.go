package directory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/feed"
)

// errDamaged: the topic does not hold what was read from it before.
var errDamaged = errors.New("the topic lost records")

const (
	// maxFold bounds the records that one commit to the store collects.
	maxFold = 8192
	// sayAgain is the least time between two lines in the log while the topic cannot be followed.
	sayAgain = 30 * time.Second
)

// tail is the only goroutine that changes the view. After each fault it looks at the first record again, because
// behind the new connection may be another life of the topic.
func (d *Directory) tail(ctx context.Context) {
	r := d.topic.Reader()
	defer func() {
		if err := r.Close(); err != nil {
			d.cfg.Log.Warn("closing the directory's reader failed", "err", err)
		}
	}()
	for try := 0; ; try++ {
		before := d.position().Next
		err := d.attach(ctx, r)
		if ctx.Err() != nil {
			return
		}
		if d.position().Next != before || errors.Is(err, context.Canceled) {
			try = 0
		}
		d.away(err)
		if !d.pause(ctx, try) {
			return
		}
	}
}

// attach finds the life, adopts it where it is another one, and follows the topic until a fault.
func (d *Directory) attach(ctx context.Context, r Reader) error {
	pos := d.position()
	life, at, err := d.establish(ctx, r, pos)
	if err != nil {
		return err
	}
	looked := time.Now()
	d.mu.Lock()
	broken := d.broken
	d.mu.Unlock()
	switch {
	case life != pos.Life || at != pos.HomeAt:
		err = d.adopt(ctx, pos, life, at)
	case broken != nil:
		err = d.rebuild(pos, false)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d.mu.Lock()
	d.detach, d.seenAt = cancel, looked
	d.mu.Unlock()
	err = d.follow(ctx, r)
	if errors.Is(err, errDamaged) || errors.Is(err, ErrOutOfRange) {
		// Out of range with the same first record: the end went back.
		pos := d.position()
		if same, serr := d.sameLife(ctx, r, pos); serr != nil || !same {
			return errors.Join(err, serr) // the next attach finds out
		}
		if rerr := d.rebuild(pos, true); rerr != nil {
			return rerr
		}
	}
	return d.noteLoss(d.viewEpoch(), err)
}

// follow reads on from the view's position until a fault. First it reads the last record of the view again: a log that
// was cut and grew on shows there.
func (d *Directory) follow(ctx context.Context, r Reader) error {
	pos := d.position()
	from, verify, pushed := pos.Next, pos.Next > pos.HomeAt, false
	if verify {
		from--
	}
	for {
		f := d.newFold(pos)
		var fault error
		err := r.Read(ctx, from, func(off domain.Offset, value []byte) bool {
			if verify {
				if off != from || hash(value) != pos.Hash {
					fault = errDamaged
					return false
				}
				verify = false
				return true
			}
			if _, fault = f.apply(off, value); fault == nil && f.applied >= maxFold {
				if fault = d.commit(f); fault == nil {
					f = d.newFold(f.pos)
				}
			}
			return fault == nil
		})
		if fault != nil {
			return fault
		}
		// What was read before a fault is as good as ever.
		if err := d.commit(f); err != nil {
			return err
		}
		if pos = f.pos; !verify {
			from = pos.Next
		}
		switch {
		case err != nil:
			return fmt.Errorf("read the topic: %w", err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		switch {
		case !verify:
			d.back()
		case !pushed:
			// The log may end just there, and then nothing ever comes to tell: say something.
			if _, err := d.appendBarrier(ctx, pos.Life); err != nil {
				return err
			}
			pushed = true
		}
	}
}

func (d *Directory) newFold(from Position) *fold { return newFold(from, d.knows, d.ownerEntry) }

// commit writes what f collected to the store and then shows it.
func (d *Directory) commit(f *fold) error {
	if f.applied == 0 {
		return nil
	}
	c := f.changes()
	if err := d.store.Commit(c); err != nil {
		return fmt.Errorf("write the local directory: %w", err)
	}
	d.stats.fold(f)
	var list *feed.Feed
	d.update(func() {
		d.pos = c.Position
		for _, e := range c.Owners {
			d.owners[e.Shard] = e
		}
		list = d.feed
	})
	list.Advance(c.Position.Rooms)
	for _, e := range c.Owners {
		d.cfg.Hooks.OwnerChanged(e.Shard)
	}
	return nil
}

func (d *Directory) knows(id uuid.UUID) (bool, error) {
	_, ok, err := d.room(id)
	if err != nil {
		return false, fmt.Errorf("read the local directory: %w", err)
	}
	return ok, nil
}

// away: the tail does not follow. Said once, and again when the reason is another one and has been for a while.
func (d *Directory) away(err error) {
	d.fault()
	d.update(func() { d.follows, d.why = false, err })
	if errors.Is(err, context.Canceled) || err.Error() == d.saidWhy || time.Since(d.saidAt) < sayAgain {
		return
	}
	d.saidWhy, d.saidAt = err.Error(), time.Now()
	d.cfg.Log.Warn("the directory cannot follow its topic: trying again", "err", err)
}

// back: the tail follows.
func (d *Directory) back() {
	d.mu.Lock()
	follows := d.follows
	d.mu.Unlock()
	if follows {
		return
	}
	d.update(func() { d.follows, d.why = true, nil })
	d.saidWhy, d.saidAt = "", time.Time{}
	pos := d.position()
	d.cfg.Log.Info("the directory follows its topic", "home", pos.Life.Home, "offset", pos.Next, "rooms", pos.Rooms)
}
