package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/test/check"
)

// writer is a client that writes to one room, one message after another, and reads what it wrote.
type writer struct {
	w    *world
	era  *era
	r    *rand.Rand
	room domain.ChatRoomInfo
	name string
	at   *node // where it believes the owner to be

	count int
	sent  []sentMessage // stored before, for repeats
}

type sentMessage struct{ id, text string }

const writersPerRoom = 2

func (w *world) startClients(r *rand.Rand, e *era) {
	for i, room := range e.rooms {
		for j := range writersPerRoom {
			c := &writer{
				w: w, era: e, r: rand.New(rand.NewPCG(r.Uint64(), 1)), room: room,
				name: fmt.Sprintf("writer-%d-%d", i, j), at: w.nodes[r.IntN(len(w.nodes))],
			}
			w.clients.Go(c.run)
		}
		for j := range subscribersPerRoom {
			s := newSubscriber(w, e, rand.New(rand.NewPCG(r.Uint64(), 2)), room, fmt.Sprintf("subscriber-%d-%d", i, j))
			e.subs = append(e.subs, s)
			w.followers.Go(s.run)
		}
	}
}

func (c *writer) run() {
	for {
		select {
		case <-c.w.quiet:
			return
		case <-time.After(time.Duration(c.r.ExpFloat64() * float64(c.w.cfg.Pace))):
		}
		switch n := c.r.IntN(100); {
		case n < 70 || len(c.sent) == 0:
			c.deliver(c.fresh(), 5*time.Second)
		case n < 78: // again, long after it was stored
			c.deliver(c.earlier(), 5*time.Second)
		case n < 82: // another text under an id that is taken
			m := c.earlier()
			m.text += "!"
			c.deliver(m, 5*time.Second)
		case n < 88: // impatient: gives up while the write is under way, and tries again
			m := c.fresh()
			c.attempt(m, time.Duration(1+c.r.IntN(30))*time.Millisecond)
			c.deliver(m, 5*time.Second)
		case n < 92: // gives up for good
			c.attempt(c.fresh(), time.Duration(1+c.r.IntN(2000))*time.Millisecond)
		case n < 96: // twice at once, through different instances
			c.twins()
		case n < 97:
			c.create()
		default: // a burst: several in one batch
			c.burst()
		}
		switch c.r.IntN(12) {
		case 0, 1, 2, 3:
			c.read()
		case 4:
			c.find()
		case 5:
			c.know(c.room)
		}
	}
}

// earlier is a message that was stored before, and surely not deleted since.
func (c *writer) earlier() sentMessage {
	from := 0
	if c.w.cfg.Mode == Deleting {
		from = max(0, len(c.sent)-5)
	}
	return c.sent[from+c.r.IntN(len(c.sent)-from)]
}

func (c *writer) fresh() sentMessage {
	c.count++
	text := fmt.Sprintf("%s says %d", c.name, c.count)
	if c.r.IntN(50) == 0 {
		text += strings.Repeat(".", c.r.IntN(domain.MaxTextBytes-len(text)))
	}
	return sentMessage{fmt.Sprintf("m%d", c.count), text}
}

// deliver tries until there is an answer that ends it.
func (c *writer) deliver(m sentMessage, patience time.Duration) {
	for !c.era.lost.Load() {
		s, retry := c.attempt(m, patience)
		switch s.Outcome {
		case check.Stored:
			if !slices.Contains(c.sent, m) {
				c.sent = append(c.sent, m)
				if keep := 400; len(c.sent) > keep {
					i := c.r.IntN(keep)
					c.sent = slices.Delete(c.sent, i, i+1)
				}
			}
			return
		case check.Mutation:
			return
		}
		time.Sleep(retry)
	}
}

// attempt sends once and notes what became of it.
func (c *writer) attempt(m sentMessage, patience time.Duration) (check.Send, time.Duration) {
	n := c.at
	if n == nil || c.r.IntN(8) == 0 {
		n = c.w.nodes[c.r.IntN(len(c.w.nodes))]
	}
	return c.sendTo(n, m, patience)
}

func (c *writer) sendTo(n *node, m sentMessage, patience time.Duration) (check.Send, time.Duration) {
	s := check.Send{Client: c.name, Instance: n.id, Invoked: c.w.now(), Room: c.room.ID, User: c.name, ClientID: m.id, Text: m.text}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var stored domain.Message
	var duplicate bool
	l, err := n.call(ctx, func(ctx context.Context, l *life) error {
		room, err := l.home.ChatRoom(ctx, c.room.Shard, c.room.ID)
		if err != nil {
			return err
		}
		got, dup, err := room.Send(ctx, domain.Draft{User: c.name, ClientID: m.id, Text: m.text})
		if err == nil {
			stored, duplicate = got, dup
		}
		return err
	})
	s.Returned = c.w.now()
	if l != nil {
		s.Instance = l.self.URL
	}
	retry := time.Duration(20+c.r.IntN(200)) * time.Millisecond
	var no *domain.ShardNotOwnedError
	var mutation *domain.MessageMutationError
	var overloaded *domain.OverloadedError
	var unknown *domain.OutcomeUnknownError
	switch {
	case err == nil:
		s.Outcome, s.Duplicate, s.Message = check.Stored, duplicate, seen(stored)
		c.at = n
	case errors.As(err, &mutation):
		s.Outcome, s.Message = check.Mutation, seen(mutation.Existing)
	case errors.As(err, &no):
		s.Outcome = check.NotOwned
		c.at = c.w.named(no.Owner)
	case errors.As(err, &overloaded), errors.Is(err, errNoProcess):
		s.Outcome = check.Refused
		c.at = nil
	case errors.As(err, &unknown), errors.Is(err, errLost):
		s.Outcome = check.Unknown
		c.at = nil
	default:
		s.Outcome = check.Unknown
		if !c.era.lost.Load() {
			c.w.violated("an answer that is no answer", "%s got from %s: %v", c.name, s.Instance, err)
		}
	}
	if !c.era.lost.Load() {
		c.era.history.Sent(s)
	}
	return s, retry
}

// named is the node that an error names as the owner.
func (w *world) named(o *domain.Owner) *node {
	if o != nil {
		for _, n := range w.nodes {
			if n.id == o.Instance.ID {
				return n
			}
		}
	}
	return nil
}

// companion is the same client on another connection: with randomness and an idea of the owner of its own.
func (c *writer) companion() *writer {
	return &writer{w: c.w, era: c.era, room: c.room, name: c.name, at: c.at, r: rand.New(rand.NewPCG(c.r.Uint64(), 3))}
}

func (c *writer) twins() {
	m := c.fresh()
	other := c.companion()
	done := make(chan struct{})
	go func() {
		defer close(done)
		other.sendTo(c.w.nodes[other.r.IntN(len(c.w.nodes))], m, 3*time.Second)
	}()
	c.deliver(m, 5*time.Second)
	<-done
}

func (c *writer) burst() {
	done := make(chan struct{})
	size := 2 + c.r.IntN(6)
	for range size {
		m := c.fresh()
		other := c.companion()
		go func() {
			other.deliver(m, 5*time.Second)
			done <- struct{}{}
		}()
	}
	for range size {
		<-done
	}
}

// read looks at the end of the room.
func (c *writer) read() {
	n := c.at
	if n == nil || c.r.IntN(3) == 0 {
		n = c.w.nodes[c.r.IntN(len(c.w.nodes))]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	look := check.Read{Client: c.name, Invoked: c.w.now(), Room: c.room.ID}
	var newest domain.Serial
	l, err := n.call(ctx, func(ctx context.Context, l *life) error {
		room, err := l.home.ChatRoom(ctx, c.room.Shard, c.room.ID)
		if err != nil {
			return err
		}
		if c.r.IntN(2) == 0 {
			_, newest, err = room.Bounds(ctx)
			return err
		}
		p, err := room.Messages(ctx, domain.Range{Limit: 3, FromEnd: true})
		if err == nil && len(p.Messages) > 0 {
			newest = p.Messages[len(p.Messages)-1].Serial
		}
		return err
	})
	if err != nil || c.era.lost.Load() {
		return
	}
	look.Returned, look.Newest, look.Instance = c.w.now(), int64(newest), l.self.URL
	c.era.history.Looked(look)
}

func seen(m domain.Message) check.Message {
	return check.Message{Room: m.Room, Serial: int64(m.Serial), User: m.User, ClientID: m.ClientID, Text: m.Text, SentAt: int64(m.SentAt)}
}
