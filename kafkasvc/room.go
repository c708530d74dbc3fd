package kafkasvc

import (
	"context"
	"errors"

	"github.com/chathome/chathome/domain"
)

// room is a chat room behind the gate, for one tenure. It implements domain.Room. It never asks who owns what:
// it was let in by the gate, and asks the gate once more before an answer leaves.
type room struct {
	home   *Home
	tenure *tenure
	state  *roomState
}

// Info implements domain.Room.
func (r *room) Info() domain.ChatRoomInfo { return r.state.info }

// Feed implements domain.Room.
func (r *room) Feed() domain.Feed { return r.state.follow(r.tenure.holds) }

// Send implements domain.Room.
func (r *room) Send(ctx context.Context, d domain.Draft) (domain.Message, bool, error) {
	if err := d.Validate(); err != nil {
		r.tenure.shard.counts.writes[writeMessage][WriteInvalid].Add(1)
		return domain.Message{}, false, err
	}
	ctx, cancel := r.home.bounded(ctx)
	defer cancel()
	c := newCommand(r.state.info.ID)
	c.draft = d
	res := r.tenure.submit(ctx, c)
	return res.message, res.duplicate, res.err
}

// submit hands c to the writer and waits for its end. The end of ctx withdraws it: not stored if it was in no
// batch yet, unknown if it was.
func (t *tenure) submit(ctx context.Context, c *command) result {
	r := t.await(ctx, c)
	t.shard.counts.wrote(c, &r)
	r.err = t.typed(r.err)
	return r
}

// await is submit with the ends of a write as they are inside.
func (t *tenure) await(ctx context.Context, c *command) result {
	err := t.queue.offer(c)
	if err == nil {
		select {
		case r := <-c.done:
			return r
		case <-ctx.Done():
			err = errUnknown
			if t.queue.withdraw(c) {
				err = errNotStored
			}
		}
		select { // the answer may have come meanwhile
		case r := <-c.done:
			return r
		default:
		}
	}
	return result{err: err}
}

// typed turns the ends of a write into what clients see.
func (t *tenure) typed(err error) error {
	switch {
	case errors.Is(err, errUnknown):
		return &domain.OutcomeUnknownError{Shard: t.shard.id}
	case errors.Is(err, errNotStored):
		if no := t.gate.refusal(t.shard.id); no != nil {
			return no
		}
		return t.gate.busy(t.shard.id) // not stored all the same, though the shard is open by now
	}
	return err
}

// read runs f between two looks at the gate: the second is what makes the answer true at the time it leaves.
// An error of f is one of the local store.
func (r *room) read(f func() error) error {
	if err := r.tenure.holds(); err != nil {
		return err
	}
	err := f()
	if no := r.tenure.holds(); no != nil {
		return no
	}
	if err != nil {
		return r.tenure.breakDown(err)
	}
	return nil
}

// Message implements domain.Room.
func (r *room) Message(_ context.Context, user, clientID string) (m domain.Message, ok bool, err error) {
	err = r.read(func() (err error) {
		m, ok, err = r.tenure.store.Find(r.state.info.ID, user, clientID)
		return err
	})
	return m, ok, err
}

// Messages implements domain.Room.
func (r *room) Messages(_ context.Context, q domain.Range) (p domain.Page, err error) {
	err = r.read(func() (err error) {
		p, err = r.tenure.store.Read(r.state.info.ID, q)
		return err
	})
	return p, err
}

// Bounds implements domain.Room.
func (r *room) Bounds(context.Context) (oldest, newest domain.Serial, err error) {
	err = r.read(func() (err error) {
		oldest, newest, err = r.bounds()
		return err
	})
	return oldest, newest, err
}

func (r *room) bounds() (oldest, newest domain.Serial, err error) {
	newest = r.state.feed.Load().Tip()
	oldest, err = r.tenure.store.Oldest(r.state.info.ID)
	if err != nil {
		return 0, 0, err
	}
	if oldest == 0 {
		oldest = newest + 1
	}
	return oldest, newest, nil
}

// at finds the message with this serial.
func (r *room) at(serial domain.Serial) (m domain.Message, ok bool, err error) {
	p, err := r.tenure.store.Read(r.state.info.ID, domain.Range{After: serial - 1, Before: serial + 1, Limit: 1})
	if err != nil || len(p.Messages) == 0 {
		return domain.Message{}, false, err
	}
	return p.Messages[0], true, nil
}

// Cursor implements domain.Room.
func (r *room) Cursor(m *domain.Message) domain.Cursor {
	return domain.Cursor{Home: r.home.Home(), Room: r.state.info.ID, Serial: m.Serial, Hash: m.Hash()}
}

// CursorAt implements domain.Room.
func (r *room) CursorAt(_ context.Context, serial domain.Serial) (c domain.Cursor, err error) {
	ok := false
	var gone domain.CursorOutOfRangeError
	err = r.read(func() error {
		if c, ok, err = r.cursorAt(serial); ok || err != nil {
			return err
		}
		gone, err = r.outOfRange()
		return err
	})
	if err == nil && !ok {
		err = &gone
	}
	return c, err
}

// cursorAt is not ok where no message has this serial. The position before the oldest message has none either, and is
// one to begin at.
func (r *room) cursorAt(serial domain.Serial) (c domain.Cursor, ok bool, err error) {
	c = domain.Cursor{Home: r.home.Home(), Room: r.state.info.ID, Serial: serial}
	m, ok, err := r.at(serial)
	if ok {
		c.Hash = m.Hash()
		return c, true, nil
	}
	if err != nil {
		return c, false, err
	}
	oldest, _, err := r.bounds()
	return c, serial == oldest-1, err
}

// Resolve implements domain.Room. A cursor holds where its message is there, the very one. The position before
// the oldest message has no message: it holds as long as nothing more of the history is deleted.
func (r *room) Resolve(_ context.Context, c domain.Cursor) (serial domain.Serial, err error) {
	if c.Room != r.state.info.ID {
		return 0, &domain.BadCursorError{Reason: "it belongs to another chat room"}
	}
	valid := false
	var gone domain.CursorOutOfRangeError
	err = r.read(func() error {
		oldest, newest, err := r.bounds()
		if err != nil {
			return err
		}
		switch {
		case c.Home != r.home.Home():
		case c.Serial == oldest-1: // before all that is left; see outOfRange
			valid = c.Hash == 0
		case c.Serial >= oldest && c.Serial <= newest:
			m, ok, err := r.at(c.Serial)
			if err != nil {
				return err
			}
			valid = ok && m.Hash() == c.Hash
		}
		if !valid {
			gone, err = r.outOfRange()
		}
		return err
	})
	switch {
	case err != nil:
		return 0, err
	case !valid:
		return 0, &gone
	}
	return c.Serial, nil
}

// outOfRange names the positions to go on from: before all that is left, and behind the newest message. Both are
// empty where nothing is left.
func (r *room) outOfRange() (e domain.CursorOutOfRangeError, err error) {
	oldest, newest, err := r.bounds()
	if err != nil || newest < oldest {
		return e, err
	}
	first := domain.Cursor{Home: r.home.Home(), Room: r.state.info.ID, Serial: oldest - 1}
	last, _, err := r.cursorAt(newest)
	return domain.CursorOutOfRangeError{Oldest: first.String(), Newest: last.String()}, err
}

var _ domain.Room = (*room)(nil)
