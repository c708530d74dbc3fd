package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph/stream"
	"github.com/chathome/chathome/test/check"
)

// subscriber follows a room through whichever instance serves it, and resumes by cursor wherever it was cut off.
type subscriber struct {
	w      *world
	era    *era
	r      *rand.Rand
	room   domain.ChatRoomInfo
	name   string
	at     *node
	stream *check.Stream
	cursor string        // behind the last event; "" at first
	pos    domain.Serial // the same, as a number that no client would know
	behind atomic.Int64  // pos, for others
}

const subscribersPerRoom = 2

func newSubscriber(w *world, e *era, r *rand.Rand, room domain.ChatRoomInfo, name string) *subscriber {
	s := &subscriber{w: w, era: e, r: r, room: room, name: name}
	s.stream = e.history.Follow(name, room.ID, 0)
	s.stream.Complete = true
	return s
}

// event is what a transport would send: messages, and the cursor behind them.
type event struct {
	messages []domain.Message
	cursor   domain.Cursor
}

const eventMessages = 50

func (s *subscriber) run() {
	for !s.done() {
		n := s.at
		if n == nil || s.r.IntN(6) == 0 {
			n = s.w.nodes[s.r.IntN(len(s.w.nodes))]
		}
		s.at = n
		err := s.follow(n)
		var no *domain.ShardNotOwnedError
		var gone *domain.CursorOutOfRangeError
		switch {
		case errors.As(err, &no):
			s.at = s.w.named(no.Owner)
		case errors.As(err, &gone):
			s.outOfRange(gone)
		case err != nil:
			s.at = nil
			var unknown *domain.UnknownChatRoomError
			if errors.As(err, &unknown) && !s.era.lost.Load() {
				s.w.violated("an unknown room", "%s was told by %s that its room does not exist", s.name, n.id)
			}
		}
		time.Sleep(time.Duration(20+s.r.IntN(300)) * time.Millisecond)
	}
}

// done: everything was received, or nothing of this life of the topics is left.
func (s *subscriber) done() bool {
	if s.era.lost.Load() {
		return true
	}
	ends := s.era.ends.Load()
	return ends != nil && s.pos >= (*ends)[s.room.ID]
}

// outOfRange: history was deleted behind the subscriber. It goes on from the oldest position that is left.
func (s *subscriber) outOfRange(e *domain.CursorOutOfRangeError) {
	oldest, err := domain.ParseCursor(e.Oldest)
	switch {
	case s.era.lost.Load():
	case s.w.cfg.Mode != Deleting:
		s.w.violated("a cursor was refused", "%s: behind serial %d: %v", s.name, s.pos, e)
	case err != nil:
		s.w.violated("a cursor was refused", "%s: behind serial %d, and the oldest position is %q: %v", s.name, s.pos, e.Oldest, err)
	case oldest.Serial <= s.pos:
		s.w.violated("a cursor was refused", "%s: behind serial %d, but the oldest position is behind %d", s.name, s.pos, oldest.Serial)
	default:
		s.stream.Complete = false
		s.stream = s.era.history.Follow(s.name, s.room.ID, int64(oldest.Serial))
		s.stream.Complete = true
		s.cursor, s.pos = e.Oldest, oldest.Serial
	}
}

// follow subscribes at one instance and takes events until the end of the stream, whose reason it returns.
func (s *subscriber) follow(n *node) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ctx, holder := stream.Attach(ctx)
	var events <-chan event
	start, begun := context.WithTimeout(ctx, 5*time.Second)
	defer begun()
	l, err := n.call(start, func(_ context.Context, l *life) (err error) {
		events, err = s.subscribe(ctx, l)
		return err
	})
	if err != nil {
		cancel()
		return err
	}
	patience := time.NewTimer(time.Duration(s.r.ExpFloat64() * float64(5*time.Minute)))
	defer patience.Stop()
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case e, ok := <-events:
			if err := l.answer(context.Background(), nil); err != nil {
				return err
			}
			if err := holder.Err(); !ok {
				return err
			}
			if err := holder.Broken(false); err != nil {
				return err
			}
			s.got(e)
		case <-patience.C:
			return errors.New("the subscriber went elsewhere")
		case <-look.C:
			if s.done() || l.gone.Load() {
				return nil
			}
		}
	}
}

func (s *subscriber) got(e event) {
	if s.era.lost.Load() {
		return
	}
	for i := range e.messages {
		s.stream.Got(seen(e.messages[i]))
		s.pos = e.messages[i].Serial
	}
	if len(e.messages) > 0 {
		s.cursor = e.cursor.String()
		s.behind.Store(int64(s.pos))
	}
}

// subscribe is what a resolver does.
func (s *subscriber) subscribe(ctx context.Context, l *life) (<-chan event, error) {
	room, err := l.home.ChatRoom(ctx, s.room.Shard, s.room.ID)
	if err != nil {
		return nil, err
	}
	feed := room.Feed()
	oldest, _, err := room.Bounds(ctx)
	if err != nil {
		return nil, err
	}
	from := oldest - 1
	if s.cursor != "" {
		c, err := domain.ParseCursor(s.cursor)
		if err != nil {
			return nil, err
		}
		if from, err = room.Resolve(ctx, c); err != nil {
			return nil, err
		}
	} else if from > 0 {
		return nil, &domain.CursorOutOfRangeError{Oldest: domain.Cursor{Home: l.home.Home(), Room: s.room.ID, Serial: from}.String()}
	}
	read := func(ctx context.Context, from, _ domain.Serial) (e event, to domain.Serial, err error) {
		err = l.run(ctx, func(ctx context.Context, _ *life) error {
			p, err := room.Messages(ctx, domain.Range{After: from, Before: feed.Tip() + 1, Limit: eventMessages})
			if err != nil {
				return err
			}
			if err := feed.Err(); err != nil {
				return err
			}
			e.messages, to = p.Messages, from
			if n := len(p.Messages); n > 0 {
				to = p.Messages[n-1].Serial
				e.cursor = room.Cursor(&p.Messages[n-1])
			}
			return nil
		})
		return e, to, err
	}
	return stream.Follow(ctx, feed, from, read), nil
}
