package graph

import (
	"context"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph/model"
	"github.com/chathome/chathome/graph/stream"
)

// Messages follows a room behind the gate, for one tenure.
func (r subscription) Messages(ctx context.Context, chatRoomID string, after *string, last *int32) (<-chan *model.MessageBatch, error) {
	id, err := roomID("chatRoomId", chatRoomID)
	if err != nil {
		return nil, err
	}
	var s size
	switch {
	case after != nil && last != nil:
		return nil, badRequest("Give after or last, not both.")
	case last != nil:
		if s, err = sized("last", *last, true); err != nil {
			return nil, err
		}
	}
	room, err := r.gate(ctx, id)
	if err != nil {
		return nil, err
	}
	feed := room.Feed() // before the bounds: what comes in between wakes us
	start, err := startOf(ctx, room, after, last != nil, s.limit)
	if err != nil {
		return nil, err
	}
	return stream.Follow(ctx, feed, start, messageBatches(room, feed)), nil
}

// startOf is the position to start behind.
func startOf(ctx context.Context, room domain.Room, after *string, fromEnd bool, last int) (domain.Serial, error) {
	if after != nil {
		return resolve(ctx, room, *after)
	}
	oldest, newest, err := room.Bounds(ctx)
	if err != nil {
		return 0, err
	}
	if fromEnd {
		return max(oldest-1, newest-domain.Serial(last)), nil
	}
	return oldest - 1, nil
}

// ChatRooms follows the room list, on every instance.
func (r subscription) ChatRooms(ctx context.Context, after *string) (<-chan *model.ChatRoomBatch, error) {
	list := r.home.Directory()
	home := r.home.Home()
	if home == (uuid.UUID{}) { // a cursor of no life would be refused when it comes back
		return nil, &domain.OverloadedError{Resource: "directory", RetryAfter: startingRetry}
	}
	var start domain.Serial
	if after != nil {
		var err error
		if start, err = resolveList(ctx, list, *after); err != nil {
			return nil, err
		}
	}
	feed := list.Feed()
	return stream.Follow(ctx, feed, start, chatRoomBatches(home, list, feed)), nil
}

// Shards follows the state of this instance.
func (r subscription) Shards(ctx context.Context) (<-chan []model.Shard, error) {
	feed := r.home.ShardsFeed()
	read := func(_ context.Context, from, upTo domain.Serial) ([]model.Shard, domain.Serial, error) {
		to := feed.Tip() // before the state: what changes in between comes again
		if upTo > 0 {
			to = min(to, upTo)
		}
		return model.ShardsOf(r.home.Shards()), max(from, to), nil
	}
	return stream.Follow(ctx, feed, feed.Tip(), read), nil
}
