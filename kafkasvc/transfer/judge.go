package transfer

import (
	"context"
	"fmt"
	"os"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

// judge says which records of a shard are part of its data, by the rules that owners follow. As long as each record
// fits those before it, the newest serials are all that is needed. In a log that was damaged it takes the whole
// history to judge: then the records are folded into a local store in a temporary directory.
type judge struct {
	shard *shardLog
	rooms map[uuid.UUID]domain.Serial

	store *local.Store // nil while all is well
	dir   string
	fold  *local.Fold
}

// accept judges the record at off; v is filled.
func (j *judge) accept(ctx context.Context, off domain.Offset, value []byte, v *record.View) (bool, error) {
	if j.fold == nil {
		if accepted, fits := j.plain(off, value, v); fits {
			return accepted, nil
		}
		if err := j.turnToStore(ctx, off); err != nil {
			return false, err
		}
	}
	return j.apply(off, value, v)
}

// plain judges by serials alone. fits is false where that does not suffice.
func (j *judge) plain(off domain.Offset, value []byte, v *record.View) (accepted, fits bool) {
	if !counts(v, off, value) {
		return false, true
	}
	last, known := j.rooms[v.Room]
	switch v.Kind {
	case record.KindChatRoomCreated:
		if known {
			return false, false
		}
		j.rooms[v.Room] = 0
	case record.KindMessageAdded:
		if !known || domain.FitOf(last, v.Serial) != domain.Fits {
			return false, false
		}
		j.rooms[v.Room] = v.Serial
	default:
		return false, true
	}
	return true, true
}

// foldBytes bounds what a fold holds before it is stored.
const foldBytes = 16 << 20

func (j *judge) apply(off domain.Offset, value []byte, v *record.View) (bool, error) {
	accepted := j.fold.Apply(off, value, v).Accepted()
	if j.fold.Bytes() > foldBytes {
		if err := j.fold.Commit(func(commit func() error) error { return commit() }); err != nil {
			return false, fmt.Errorf("judge shard %d in a temporary store: %w", j.shard.number, err)
		}
	}
	return accepted, j.fold.Err()
}

// turnToStore folds all that lies below off.
func (j *judge) turnToStore(ctx context.Context, off domain.Offset) (err error) {
	if j.dir, err = os.MkdirTemp("", "chathome-export-"); err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	if j.store, err = local.Open(local.Config{Dir: j.dir}); err != nil {
		return fmt.Errorf("open a temporary store: %w", err)
	}
	j.rooms = nil
	start := j.shard.start
	j.fold = j.store.Shard(domain.ShardID(j.shard.number)).NewFold(local.Position{Next: start, Start: start})
	var v record.View
	return j.shard.read(ctx, start, off, func(off domain.Offset, value []byte) error {
		_, err := j.apply(off, value, &v)
		return err
	})
}

func (j *judge) close() {
	if j.store != nil {
		_ = j.store.Close() // it goes now
	}
	if j.dir != "" {
		_ = os.RemoveAll(j.dir)
	}
}
