package directory

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// ErrNewLife: the life of the topics that the announcement was made for is over.
var ErrNewLife = errors.New("directory: another life of the topics has begun")

// Limits of one batch to the topic, far below what a broker takes.
const (
	batchRecords = 1000
	batchBytes   = 256 << 10
)

// entry is a part of a batch to the topic.
type entry struct {
	values [][]byte
	bytes  int
	gone   <-chan struct{} // the one who waits has given up: not worth sending
	done   chan struct{}   // closed when the topic has acknowledged it
	end    domain.Offset   // behind its last record; set before done
}

// append writes one batch, once.
func (d *Directory) append(ctx context.Context, values [][]byte) (domain.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.RPCTimeout)
	defer cancel()
	base, err := d.topic.Append(ctx, values)
	if err != nil {
		d.fault()
	}
	return base, err
}

// appender writes entries in batches: again until acknowledged, because a record of the directory is
// harmless when repeated.
func (d *Directory) appender(ctx context.Context) {
	for {
		var first *entry
		select {
		case <-ctx.Done():
			return
		case first = <-d.entries:
		}
		d.flush(ctx, d.collect(first))
	}
}

// collect adds to first what waits besides.
func (d *Directory) collect(first *entry) []*entry {
	batch := []*entry{first}
	records, bytes := len(first.values), first.bytes
	for records < batchRecords && bytes < batchBytes {
		select {
		case e := <-d.entries:
			batch = append(batch, e)
			records += len(e.values)
			bytes += e.bytes
		default:
			return batch
		}
	}
	return batch
}

// flush returns when the batch is acknowledged, nobody waits for it any more, or ctx ended.
func (d *Directory) flush(ctx context.Context, batch []*entry) {
	for try := 0; ; try++ {
		var values [][]byte
		waiting := batch[:0]
		for _, e := range batch {
			select {
			case <-e.gone:
			default:
				waiting = append(waiting, e)
				values = append(values, e.values...)
			}
		}
		if batch = waiting; len(batch) == 0 {
			return
		}
		base, err := d.append(ctx, values)
		if err == nil {
			for _, e := range batch {
				base += domain.Offset(len(e.values))
				e.end = base
				close(e.done)
			}
			return
		}
		d.stats.retries.Add(1)
		if try == 0 {
			d.cfg.Log.Warn("appending to the directory failed: trying again", "err", err)
		}
		if !d.pause(ctx, try) {
			return
		}
	}
}

// publish appends values and returns once they are acknowledged and read back.
func (d *Directory) publish(ctx context.Context, epoch uint64, values [][]byte) error {
	e := &entry{values: values, gone: ctx.Done(), done: make(chan struct{})}
	for _, v := range values {
		e.bytes += len(v)
	}
	select {
	case d.entries <- e:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stopped:
		return errStopped
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stopped:
		return errStopped
	}
	return d.await(ctx, func() bool { return d.epoch != epoch || d.pos.Next >= e.end })
}

// Announce makes rooms known to every instance. It returns nil once they are acknowledged in the topic and this
// instance's own view has them; it tries until ctx ends. Rooms that are known already cost nothing. An error means:
// perhaps announced, and a repetition does no harm. ErrNewLife: do not repeat.
func (d *Directory) Announce(ctx context.Context, infos ...domain.ChatRoomInfo) error {
	var life Life
	if err := d.await(ctx, func() bool { life = d.pos.Life; return life != Life{} }); err != nil {
		return fmt.Errorf("announce rooms: %w", err)
	}
	for {
		epoch, values, err := d.missing(life, infos)
		if err != nil {
			return fmt.Errorf("announce rooms: %w", err)
		}
		if len(values) == 0 {
			return nil
		}
		for len(values) > 0 && err == nil {
			n := chunk(values)
			err = d.publish(ctx, epoch, values[:n])
			values = values[n:]
		}
		if err != nil {
			return fmt.Errorf("announce rooms: %w", err)
		}
	}
}

// missing encodes those rooms that the view lacks.
func (d *Directory) missing(life Life, infos []domain.ChatRoomInfo) (epoch uint64, values [][]byte, err error) {
	d.mu.Lock()
	epoch, now := d.epoch, d.pos.Life
	d.mu.Unlock()
	if now != life {
		return 0, nil, ErrNewLife
	}
	for i := range infos {
		known, err := d.knows(infos[i].ID)
		if err != nil {
			return 0, nil, err
		}
		if known {
			continue
		}
		v, err := encodeRoom(life.Home, infos[i])
		if err != nil {
			return 0, nil, err
		}
		values = append(values, v)
	}
	return epoch, values, nil
}

// chunk is how many of values go into one entry.
func chunk(values [][]byte) int {
	bytes := 0
	for i, v := range values {
		if bytes += len(v); i > 0 && (i >= batchRecords || bytes > batchBytes) {
			return i
		}
	}
	return len(values)
}

// AnnounceRooms announces those rooms of a loaded shard that the directory lacks. each calls its argument for every
// room until that answers false (local.Shard.EachRoom). It reads the directory to its present end first, so
// that a shard of 100,000 known rooms appends nothing.
func (d *Directory) AnnounceRooms(ctx context.Context, each func(func(domain.ChatRoomInfo) bool) error) error {
	if err := d.upToDate(ctx); err != nil {
		return fmt.Errorf("announce rooms: %w", err)
	}
	infos := make([]domain.ChatRoomInfo, 0, batchRecords)
	var fault error
	err := each(func(info domain.ChatRoomInfo) bool {
		if info.ID == uuid.Nil {
			return true // only a damaged log holds such a room, and nobody could ask for it
		}
		if known, err := d.knows(info.ID); err != nil || known {
			fault = err
			return err == nil
		}
		if infos = append(infos, info); len(infos) == cap(infos) {
			fault = d.Announce(ctx, infos...)
			infos = infos[:0]
		}
		return fault == nil
	})
	if err = errors.Join(err, fault); err == nil {
		err = d.Announce(ctx, infos...)
	}
	return err
}

// upToDate is catchUp, again and again until ctx ends.
func (d *Directory) upToDate(ctx context.Context) error {
	for try := 0; ; try++ {
		_, err := d.catchUp(ctx, false)
		switch {
		case err == nil, errors.Is(err, errStopped):
			return err
		case !d.pause(ctx, try):
			return errors.Join(ctx.Err(), err)
		}
	}
}
