package graph

import (
	"context"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph/model"
	"github.com/chathome/chathome/graph/stream"
)

// Limits of one event of a subscription.
const (
	batchCap      = 1000
	batchMaxBytes = 256 << 10 // of text; one message always fits

	// Replay ends at multiples of this, so that readers who come back from different cursors stand at the
	// same position after one event, and a transport can share the rest.
	replayPage = 64
)

// batchEnd cuts (from, tip] as stream.Read says: live (upTo 0) in one event where possible, replay in pages.
func batchEnd(from, upTo, tip domain.Serial) domain.Serial {
	switch {
	case upTo > 0:
		return max(from, min(tip, upTo, (from/replayPage+1)*replayPage))
	case tip-from > batchCap:
		return (from + batchCap) / replayPage * replayPage
	}
	return max(from, tip)
}

func messageBatches(room domain.Room, feed domain.Feed) stream.Read[*model.MessageBatch] {
	return func(ctx context.Context, from, upTo domain.Serial) (*model.MessageBatch, domain.Serial, error) {
		b := &model.MessageBatch{Edges: []model.MessageEdge{}}
		to := batchEnd(from, upTo, feed.Tip())
		if to > from {
			page, err := room.Messages(ctx, domain.Range{
				After: from, Before: to + 1, Limit: int(to - from), MaxBytes: batchMaxBytes,
			})
			if err != nil {
				return nil, from, err
			}
			b.Edges = model.MessageEdges(room, page.Messages)
		}
		if n := len(b.Edges); n > 0 {
			newest := b.Edges[n-1].Message.Stored
			b.End, to = room.Cursor(newest), newest.Serial
		} else {
			// Nothing new, or a hole in a damaged log: either way what was a safe cursor still is.
			var err error
			if b.End, err = room.CursorAt(ctx, from); err != nil {
				return nil, from, err
			}
		}
		b.Live = to >= feed.Tip()
		return b, to, nil
	}
}

func chatRoomBatches(home uuid.UUID, list domain.Directory, feed domain.Feed) stream.Read[*model.ChatRoomBatch] {
	return func(ctx context.Context, from, upTo domain.Serial) (*model.ChatRoomBatch, domain.Serial, error) {
		b := &model.ChatRoomBatch{Edges: []model.ChatRoomEdge{}, End: domain.ListCursor{Home: home}}
		to := batchEnd(from, upTo, feed.Tip())
		var rooms []domain.ListedRoom
		var err error
		if to > from {
			if rooms, _, err = list.ChatRooms(ctx, from, int(to-from)); err != nil {
				return nil, from, err
			}
			b.Edges = model.ChatRoomEdges(list, rooms)
		}
		if n := len(rooms); n > 0 {
			b.End, to = b.Edges[n-1].Position, rooms[n-1].Serial
		} else if from > 0 {
			if rooms, _, err = list.ChatRooms(ctx, from-1, 1); err != nil {
				return nil, from, err
			}
			if len(rooms) == 1 {
				b.End = list.Cursor(rooms[0])
			}
		}
		b.Live = to >= feed.Tip()
		return b, to, nil
	}
}
