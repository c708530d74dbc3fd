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

// establish finds the life that the topic is in: the first Home in it. Where the topic is missing or empty it
// makes it, and then believes what it reads, not what it wrote: another instance may have been first.
func (d *Directory) establish(ctx context.Context, r Reader, known Position) (life Life, at domain.Offset, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*d.cfg.RPCTimeout)
	defer cancel()
	if known.Life.Home != uuid.Nil {
		same, err := d.sameLife(ctx, r, known)
		if err == nil && same {
			return known.Life, known.HomeAt, nil
		}
	}
	if err := d.topic.Ensure(ctx); err != nil {
		return Life{}, 0, fmt.Errorf("make sure of the topic: %w", err)
	}
	return d.firstHome(ctx, r)
}

// sameLife reads the Home of known again. One read is enough, however much the topic holds.
func (d *Directory) sameLife(ctx context.Context, r Reader, known Position) (bool, error) {
	same := false
	err := r.Read(ctx, known.HomeAt, func(off domain.Offset, value []byte) bool {
		rec := decode(value)
		same = off == known.HomeAt && rec.kind == kindHome && rec.life == known.Life
		return false
	})
	if errors.Is(err, ErrOutOfRange) {
		return false, nil
	}
	return same, err
}

// firstHome reads from the log's start to the first Home, and appends one where there is none.
func (d *Directory) firstHome(ctx context.Context, r Reader) (Life, domain.Offset, error) {
	from, end, err := d.topic.Bounds(ctx)
	if err != nil {
		return Life{}, 0, fmt.Errorf("ask for the topic's bounds: %w", err)
	}
	for {
		if from >= end {
			if end, err = d.proposeHome(ctx); err != nil {
				return Life{}, 0, err
			}
		}
		var found *record
		at := from
		err := r.Read(ctx, from, func(off domain.Offset, value []byte) bool {
			from, at = off+1, off
			if rec := decode(value); rec.kind == kindHome {
				found = &rec
			}
			return found == nil
		})
		switch {
		case found != nil:
			return found.life, at, nil
		case err != nil:
			return Life{}, 0, fmt.Errorf("read the first record: %w", err)
		case ctx.Err() != nil:
			return Life{}, 0, fmt.Errorf("read the first record: %w", ctx.Err())
		}
	}
}

// Pinned reads the life that a topic is in, and makes none: the zero Life where the topic holds no Home yet.
func Pinned(ctx context.Context, topic Topic) (Life, error) {
	from, end, err := topic.Bounds(ctx)
	if err != nil {
		return Life{}, fmt.Errorf("ask for the topic's bounds: %w", err)
	}
	r := topic.Reader()
	defer r.Close()
	var life Life
	for life.Home == uuid.Nil && from < end {
		err := r.Read(ctx, from, func(off domain.Offset, value []byte) bool {
			from = off + 1
			if rec := decode(value); rec.kind == kindHome {
				life = rec.life
			}
			return life.Home == uuid.Nil
		})
		if err != nil {
			return Life{}, fmt.Errorf("read the first record: %w", err)
		}
	}
	return life, nil
}

// proposeHome appends a Home and returns the offset behind it. The same one at every try of this process: of several copies
// the first holds.
func (d *Directory) proposeHome(ctx context.Context) (end domain.Offset, err error) {
	if d.proposal.Home == uuid.Nil {
		d.proposal = Life{Home: d.cfg.NewHome(), Shards: d.cfg.Shards}
	}
	value, err := encodeHome(d.proposal)
	if err != nil {
		return 0, err
	}
	base, err := d.append(ctx, [][]byte{value})
	if err != nil {
		return 0, fmt.Errorf("append the first record: %w", err)
	}
	return base + 1, nil
}

// adopt makes life the one that is answered of. Whoever follows the list of the life before is told that its cursors
// mean nothing any more.
func (d *Directory) adopt(ctx context.Context, old Position, life Life, at domain.Offset) error {
	if old.Life.Home != uuid.Nil {
		d.endFeed(otherCursors(life))
	}
	if err := d.cfg.Hooks.NewLife(ctx, old.Life, life); err != nil {
		return fmt.Errorf("drop the local data of another life: %w", err)
	}
	if life.Home == d.proposal.Home {
		d.proposal = Life{} // the next life needs another id
	}
	if err := d.restart(Position{Life: life, HomeAt: at, Next: at}); err != nil {
		return err
	}
	d.stats.lives.Add(1)
	d.cfg.Log.Info("a life of the topics that the local data are not of: starting anew",
		"home", life.Home, "shards", life.Shards, "before", old.Life.Home)
	return nil
}

// rebuild drops the view within the same life. damaged: the topic does not hold what was read from it, so the order of
// the list may be another one now; otherwise only the local copy is lost.
func (d *Directory) rebuild(pos Position, damaged bool) error {
	if damaged {
		d.endFeed(otherCursors(pos.Life))
	} else {
		d.endFeed(unreadable(resourceLocal)) // the cursors stay good
	}
	if err := d.restart(Position{Life: pos.Life, HomeAt: pos.HomeAt, Next: pos.HomeAt}); err != nil {
		return err
	}
	d.stats.rebuilds.Add(1)
	d.cfg.Log.Error("the view of the directory was dropped: reading the topic again from the start",
		"offset", pos.Next, "damaged", damaged)
	if damaged {
		d.cfg.Hooks.Alarm(Alarm{Kind: AlarmDirectoryDamaged, Want: int64(pos.Next)})
		d.cfg.Hooks.Rebuilt()
	}
	return nil
}

// otherCursors ends a list whose cursors mean nothing in now. It names the only position that is known yet.
func otherCursors(now Life) error {
	start := domain.ListCursor{Home: now.Home}.String()
	return &domain.CursorOutOfRangeError{Oldest: start, Newest: start}
}

func (d *Directory) endFeed(err error) {
	d.mu.Lock()
	f := d.feed
	d.mu.Unlock()
	f.End(err)
}

// noteLoss notes that the store has lost the view of that epoch, and returns err. The tail reads the topic again.
func (d *Directory) noteLoss(epoch uint64, err error) error {
	if errors.Is(err, ErrViewLost) {
		d.update(func() {
			if d.epoch != epoch || d.broken != nil {
				return
			}
			d.broken, d.follows, d.why = err, false, err
			if d.detach != nil {
				d.detach()
			}
		})
	}
	return err
}

func (d *Directory) restart(pos Position) error {
	if err := d.store.Reset(pos); err != nil {
		return fmt.Errorf("reset the local directory: %w", err)
	}
	var gone []domain.ShardID
	d.update(func() {
		for s := range d.owners {
			gone = append(gone, s)
		}
		d.pos = pos
		d.owners = make(map[domain.ShardID]OwnerEntry)
		d.epoch++
		d.whole, d.readAt, d.broken = false, time.Time{}, nil
		if d.feed.Err() != nil {
			d.feed = feed.New(0, nil)
		}
	})
	for _, s := range gone {
		d.cfg.Hooks.OwnerChanged(s)
	}
	return nil
}
