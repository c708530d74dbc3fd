package domaintest

import (
	"context"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// room is a room of the log. Everything is under world.mu.
type room struct {
	state    domain.ChatRoom
	listed   domain.Serial
	oldest   domain.Serial
	messages []domain.Message // messages[i].Serial == oldest+i
	index    map[clientKey]domain.Serial
}

type clientKey struct{ user, clientID string }

func newRoom(info domain.ChatRoomInfo, listed domain.Serial) *room {
	return &room{
		state:  domain.ChatRoom{Info: info, LastAt: info.CreatedAt},
		listed: listed,
		oldest: 1,
		index:  map[clientKey]domain.Serial{},
	}
}

func (r *room) at(s domain.Serial) *domain.Message {
	if s < r.oldest || s > r.state.Last {
		return nil
	}
	return &r.messages[s-r.oldest]
}

func (r *room) find(user, clientID string) *domain.Message {
	return r.at(r.index[clientKey{user, clientID}])
}

func (r *room) deleteBefore(s domain.Serial) {
	s = min(s, r.state.Last+1)
	for r.oldest < s {
		m := r.messages[0]
		delete(r.index, clientKey{m.User, m.ClientID})
		r.messages = r.messages[1:]
		r.oldest++
	}
}

func (r *room) page(q domain.Range) domain.Page {
	from := max(q.After+1, r.oldest)
	to := r.state.Last + 1 // exclusive
	if q.Before > 0 {
		to = min(to, q.Before)
	}
	var p domain.Page
	if from < to {
		p.Messages = cut(r.messages[from-r.oldest:to-r.oldest], q)
	}
	if n := len(p.Messages); n > 0 {
		p.HasPrevious = p.Messages[0].Serial > r.oldest
		p.HasNext = p.Messages[n-1].Serial < r.state.Last
	} else {
		// Nothing between the bounds: what lies beside the gap. FromEnd measures from its upper end.
		p.HasPrevious = r.oldest <= min(q.After, r.state.Last)
		p.HasNext = q.Before > 0 && max(q.Before, r.oldest) <= r.state.Last
	}
	return p
}

func cut(list []domain.Message, q domain.Range) []domain.Message {
	n, bytes := 0, 0
	for n < len(list) && n < q.Limit {
		m := &list[n]
		if q.FromEnd {
			m = &list[len(list)-1-n]
		}
		if bytes += len(m.Text); n > 0 && q.MaxBytes > 0 && bytes > q.MaxBytes {
			break
		}
		n++
	}
	if q.FromEnd {
		list = list[len(list)-n:]
	} else {
		list = list[:n]
	}
	return append([]domain.Message(nil), list...)
}

// tenure is one ownership of a shard by one instance.
type tenure struct {
	h     *Home
	shard domain.ShardID
	ended atomic.Pointer[domain.ShardNotOwnedError]
	feeds map[uuid.UUID]*feed // under world.mu
}

func (t *tenure) err() error {
	if e := t.ended.Load(); e != nil {
		return e
	}
	return nil
}

// handle is called with world.mu held.
func (t *tenure) handle(r *room) *handle {
	f := t.feeds[r.state.Info.ID]
	if f == nil {
		f = newFeed(r.state.Last, t.err)
		t.feeds[r.state.Info.ID] = f
	}
	return &handle{t: t, r: r, feed: f}
}

// handle is a domain.Room: a room behind the gate for one tenure.
type handle struct {
	t    *tenure
	r    *room
	feed *feed
}

var _ domain.Room = (*handle)(nil)

// enter asks for faults, and then holds world.mu unless it returns an error.
func (x *handle) enter(ctx context.Context, op Op) error {
	if f := x.t.h.fault(ctx, op); f != nil {
		return f.Err
	}
	return x.lock()
}

func (x *handle) lock() error {
	x.t.h.w.mu.Lock()
	if err := x.t.err(); err != nil {
		x.t.h.w.mu.Unlock()
		return err
	}
	return nil
}

func (x *handle) leave() { x.t.h.w.mu.Unlock() }

func (x *handle) Info() domain.ChatRoomInfo { return x.r.state.Info }

func (x *handle) Send(ctx context.Context, d domain.Draft) (domain.Message, bool, error) {
	if err := d.Validate(); err != nil {
		return domain.Message{}, false, err
	}
	f := x.t.h.fault(ctx, OpSend)
	if f != nil && !f.Written {
		return domain.Message{}, false, f.Err
	}
	list, duplicates, err := x.add([]domain.Draft{d})
	if f != nil {
		return domain.Message{}, false, f.Err
	}
	if err != nil {
		return domain.Message{}, false, err
	}
	return list[0], duplicates == 1, nil
}

// add is one group commit.
func (x *handle) add(drafts []domain.Draft) (list []domain.Message, duplicates int, err error) {
	if err := x.lock(); err != nil {
		return nil, 0, err
	}
	now := domain.MillisOf(x.t.h.w.now())
	list = make([]domain.Message, 0, len(drafts))
	for _, d := range drafts {
		m, duplicate, e := x.r.state.AddMessage(d, x.r.find(d.User, d.ClientID), now)
		if e != nil {
			err = e
			break
		}
		list = append(list, m)
		if duplicate {
			duplicates++
			continue
		}
		x.r.state.Apply(m.Serial, m.SentAt)
		x.r.messages = append(x.r.messages, m)
		x.r.index[clientKey{m.User, m.ClientID}] = m.Serial
	}
	advanced := x.r.state.Last > x.feed.Tip()
	x.feed.set(x.r.state.Last)
	x.leave()
	if advanced {
		x.feed.wake()
	}
	return list, duplicates, err
}

func (x *handle) Message(ctx context.Context, user, clientID string) (domain.Message, bool, error) {
	if err := x.enter(ctx, OpMessage); err != nil {
		return domain.Message{}, false, err
	}
	defer x.leave()
	m := x.r.find(user, clientID)
	if m == nil {
		return domain.Message{}, false, nil
	}
	return *m, true, nil
}

func (x *handle) Messages(ctx context.Context, r domain.Range) (domain.Page, error) {
	if err := x.enter(ctx, OpMessages); err != nil {
		return domain.Page{}, err
	}
	defer x.leave()
	return x.r.page(r), nil
}

func (x *handle) Bounds(ctx context.Context) (oldest, newest domain.Serial, err error) {
	if err := x.enter(ctx, OpBounds); err != nil {
		return 0, 0, err
	}
	defer x.leave()
	return x.r.oldest, x.r.state.Last, nil
}

func (x *handle) Resolve(ctx context.Context, c domain.Cursor) (domain.Serial, error) {
	if err := x.enter(ctx, OpResolve); err != nil {
		return 0, err
	}
	defer x.leave()
	if c.Room != x.r.state.Info.ID {
		return 0, &domain.BadCursorError{Reason: "it is a cursor of another chat room"}
	}
	if c.Home != x.t.h.w.home || c.Serial < x.r.oldest-1 || c.Serial > x.r.state.Last {
		return 0, x.outOfRange()
	}
	// Directly below the oldest message nothing is left to compare with.
	if m := x.r.at(c.Serial); m != nil && m.Hash() != c.Hash || c.Serial == 0 && c.Hash != 0 {
		return 0, x.outOfRange()
	}
	return c.Serial, nil
}

// outOfRange: behind the oldest cursor nothing that is there is missed.
func (x *handle) outOfRange() error {
	if len(x.r.messages) == 0 {
		return &domain.CursorOutOfRangeError{}
	}
	return &domain.CursorOutOfRangeError{
		Oldest: x.cursorAt(x.r.oldest - 1).String(),
		Newest: x.cursorAt(x.r.state.Last).String(),
	}
}

func (x *handle) Cursor(m *domain.Message) domain.Cursor {
	x.t.h.w.mu.Lock()
	defer x.t.h.w.mu.Unlock()
	return domain.Cursor{Home: x.t.h.w.home, Room: m.Room, Serial: m.Serial, Hash: m.Hash()}
}

func (x *handle) CursorAt(ctx context.Context, s domain.Serial) (domain.Cursor, error) {
	if err := x.enter(ctx, OpCursorAt); err != nil {
		return domain.Cursor{}, err
	}
	defer x.leave()
	if s < x.r.oldest-1 || s > x.r.state.Last {
		return domain.Cursor{}, x.outOfRange()
	}
	return x.cursorAt(s), nil
}

func (x *handle) cursorAt(s domain.Serial) domain.Cursor {
	c := domain.Cursor{Home: x.t.h.w.home, Room: x.r.state.Info.ID, Serial: s}
	if m := x.r.at(s); m != nil {
		c.Hash = m.Hash()
	}
	return c
}

func (x *handle) Feed() domain.Feed { return x.feed }
