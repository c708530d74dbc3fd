package directory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// The topic without a Directory: for tools that read or fill a home while no instance serves it.

// Rooms reads the topic to its present end and returns the life that it is in, and the rooms in the order of first
// announcement. The zero Life: the topic holds no Home yet.
func Rooms(ctx context.Context, topic Topic) (life Life, rooms []domain.ChatRoomInfo, err error) {
	life, err = pinned(ctx, topic)
	if err != nil || life.Home == uuid.Nil {
		return life, nil, err
	}
	var start, end domain.Offset
	err = persist(ctx, func() (err error) {
		start, end, err = topic.Bounds(ctx)
		return err
	})
	if err != nil {
		return Life{}, nil, fmt.Errorf("ask for the bounds of the directory: %w", err)
	}
	r := topic.Reader()
	defer r.Close()
	seen := map[uuid.UUID]struct{}{}
	for from := start; from < end; {
		err := persist(ctx, func() error {
			return r.Read(ctx, from, func(off domain.Offset, value []byte) bool {
				from = off + 1
				rec := decode(value)
				if _, known := seen[rec.room.ID]; rec.kind == kindRoom && rec.home == life.Home && !known && off < end {
					seen[rec.room.ID] = struct{}{}
					rec.room.Shard = domain.ShardOf(rec.room.ID, life.Shards)
					rooms = append(rooms, rec.room)
				}
				return from < end
			})
		})
		if err != nil {
			return Life{}, nil, fmt.Errorf("read the directory at %d: %w", from, err)
		}
	}
	return life, rooms, nil
}

// Begin returns the life that the topic is in. Where there is none, it begins one with so many shards, and makes the
// topic where that is missing.
func Begin(ctx context.Context, topic Topic, shards int) (Life, error) {
	if err := persist(ctx, func() error { return topic.Ensure(ctx) }); err != nil {
		return Life{}, fmt.Errorf("make the directory: %w", err)
	}
	life, err := pinned(ctx, topic)
	if err != nil || life.Home != uuid.Nil {
		return life, err
	}
	value, err := encodeHome(Life{Home: uuid.New(), Shards: shards})
	if err != nil {
		return Life{}, err
	}
	if err := write(ctx, topic, [][]byte{value}); err != nil {
		return Life{}, err
	}
	return pinned(ctx, topic) // another one may have been first
}

func pinned(ctx context.Context, topic Topic) (life Life, err error) {
	err = persist(ctx, func() (err error) {
		life, err = Pinned(ctx, topic)
		return err
	})
	return life, err
}

const (
	offlineTries = 40
	offlinePause = 250 * time.Millisecond
	offlineRPC   = 5 * time.Second
)

// persist repeats f some times: nobody waits here who could do so himself.
func persist(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		if err == nil || errors.Is(err, ErrOutOfRange) || try == offlineTries || !sleep(ctx, offlinePause) {
			return err
		}
	}
}

// Announce makes rooms known in this order, as an owner does. Repeating it is harmless.
func Announce(ctx context.Context, topic Topic, life Life, rooms []domain.ChatRoomInfo) error {
	values := make([][]byte, 0, len(rooms))
	for _, r := range rooms {
		v, err := encodeRoom(life.Home, r)
		if err != nil {
			return err
		}
		values = append(values, v)
	}
	for len(values) > 0 {
		n := chunk(values)
		if err := write(ctx, topic, values[:n]); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

// write repeats one batch until it is acknowledged: records of the directory are harmless when repeated.
func write(ctx context.Context, topic Topic, values [][]byte) error {
	err := persist(ctx, func() error {
		actx, cancel := context.WithTimeout(ctx, offlineRPC)
		defer cancel()
		_, err := topic.Append(actx, values)
		return err
	})
	if err != nil {
		return fmt.Errorf("write to the directory: %w", err)
	}
	return nil
}
