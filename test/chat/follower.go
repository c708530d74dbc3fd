package chat

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/chathome/chathome/test/check"
)

// Follower subscribes to a room and resumes with the newest cursor, whatever happens to its connection.
type Follower struct {
	line   line
	stream *check.Stream
	room   uuid.UUID
	cursor *string

	Heard   func(n int) // hears of each event's number of messages; may be nil
	Resumes atomic.Int64
	newest  atomic.Int64
}

// NewFollower begins at the oldest message.
func (n *Net) NewFollower(name string, room uuid.UUID) *Follower {
	return &Follower{line: line{net: n}, room: room, stream: n.History.Follow(name, room, 0)}
}

// Newest is the serial of the newest message that it got.
func (f *Follower) Newest() int64 { return f.newest.Load() }

// Run follows until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	defer f.line.move("")
	for ctx.Err() == nil {
		s, err := f.line.get(ctx)
		if err == nil {
			err = s.Run(ctx, followQuery, map[string]any{"id": f.room, "after": f.cursor}, func(r Result) error {
				f.line.net.wait(ctx)
				return f.event(r)
			})
			f.Resumes.Add(1)
		}
		if err == nil {
			err = errors.New("the stream ended without a reason")
		}
		if ctx.Err() == nil {
			f.line.after(ctx, err)
		}
	}
}

func (f *Follower) event(r Result) error {
	if len(r.Errors) > 0 {
		return &r.Errors[0]
	}
	var b batch
	if err := unmarshal(r.Data, &b); err != nil {
		return err
	}
	ms, err := b.Messages.Edges.messages()
	if err != nil {
		return err
	}
	f.stream.Got(ms...)
	f.cursor = &b.Messages.EndCursor
	if len(ms) > 0 {
		if f.Heard != nil {
			f.Heard(len(ms))
		}
		f.newest.Store(ms[len(ms)-1].Serial)
	}
	return nil
}

// Finish says that the follower was given time to reach the end: the judge then wants it there. Call it after Run
// has returned.
func (f *Follower) Finish() { f.stream.Complete = true }
