package chat

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/test/check"
)

// line is a client's connection to whatever instance serves a room, as far as it knows.
type line struct {
	net    *Net
	url    string
	socket *Socket
}

// dialTimeout bounds connecting: a stopped process accepts nothing.
const dialTimeout = 3 * time.Second

// get connects where there is no connection.
func (l *line) get(ctx context.Context) (*Socket, error) {
	if l.socket != nil {
		select {
		case <-l.socket.Ended():
			l.socket = nil
		default:
			return l.socket, nil
		}
	}
	if l.url == "" {
		l.url = l.net.any()
	}
	if l.url == "" {
		return nil, errors.New("no instance is known")
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	s, err := Dial(ctx, l.url)
	if err != nil {
		l.url = ""
		return nil, err
	}
	l.socket = s
	l.net.opened(s)
	return s, nil
}

// after says how to go on from an error: at the owner where it is known, else anywhere, a little later.
func (l *line) after(ctx context.Context, err error) {
	wait := 100 * time.Millisecond
	var e *Error
	switch {
	case errors.As(err, &e):
		if no := e.Extensions.ShardNotOwned; no != nil {
			wait = time.Duration(no.RetryAfterMs) * time.Millisecond
			if no.Owner != nil && no.Owner.Instance.URL != "" && no.Owner.Instance.URL != l.url {
				l.move(no.Owner.Instance.URL)
				wait = 10 * time.Millisecond
			} else if no.State != "LOADING" {
				l.move("") // also where it is locked: it may be cut off from Kafka while others serve
			}
		} else if ms := e.Extensions.RetryAfterMs; ms > 0 {
			wait = time.Duration(ms) * time.Millisecond
		}
	default: // no answer: this instance may be gone
		l.move("")
	}
	wait = wait/2 + rand.N(wait/2+1) // not all at once
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
}

func (l *line) move(url string) {
	if l.socket != nil {
		l.socket.Close()
		l.socket = nil
	}
	l.url = url
}

// Chatter is a client that sends and reads. It does one thing at a time.
type Chatter struct {
	name    string
	line    line
	Attempt time.Duration // limit of one attempt
}

// NewChatter names a client. The name is also the user of its messages.
func (n *Net) NewChatter(name string) *Chatter {
	return &Chatter{name: name, line: line{net: n}, Attempt: 8 * time.Second}
}

// Close ends its connection.
func (c *Chatter) Close() { c.line.move("") }

// Create makes a room, however often it takes.
func (c *Chatter) Create(ctx context.Context, id uuid.UUID, name string) error {
	return c.until(ctx, func(ctx context.Context, s *Socket) error { return create(ctx, s, id, name) })
}

// until repeats f until it succeeds or ctx ends.
func (c *Chatter) until(ctx context.Context, f func(context.Context, *Socket) error) error {
	for {
		s, err := c.line.get(ctx)
		if err == nil {
			actx, cancel := context.WithTimeout(ctx, c.Attempt)
			err = f(actx, s)
			cancel()
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.line.after(ctx, err)
	}
}

// Send sends a message until the answer is final; every attempt is noted. An error is that of ctx.
func (c *Chatter) Send(ctx context.Context, room uuid.UUID, clientID, text string) (out check.Send, err error) {
	err = c.until(ctx, func(ctx context.Context, s *Socket) error {
		invoked := c.line.net.Clock()
		var err error
		out, err = send(ctx, s, room, c.name, clientID, text)
		out.Client, out.Instance, out.Invoked, out.Returned = c.name, c.line.url, invoked, c.line.net.Clock()
		c.line.net.History.Sent(out)
		return err
	})
	return out, err
}

// Look reads the newest message.
func (c *Chatter) Look(ctx context.Context, room uuid.UUID) error {
	return c.until(ctx, func(ctx context.Context, s *Socket) error {
		r := check.Read{Client: c.name, Instance: c.line.url, Room: room, Invoked: c.line.net.Clock()}
		newest, err := look(ctx, s, room)
		if err != nil {
			return err
		}
		r.Newest, r.Returned = newest, c.line.net.Clock()
		c.line.net.History.Looked(r)
		return nil
	})
}

// look reads the serial of the newest message, 0 for none.
func look(ctx context.Context, s *Socket, room uuid.UUID) (int64, error) {
	p, err := readPage(ctx, s, map[string]any{"id": room, "last": 1})
	if err != nil || len(p.messages) == 0 {
		return 0, err
	}
	return p.messages[0].Serial, nil
}

// Walk reads the whole history page by page; it is noted as one more stream. It returns the newest serial.
func (c *Chatter) Walk(ctx context.Context, room uuid.UUID) (newest int64, err error) {
	stream := c.line.net.History.Follow("history by "+c.name, room, 0)
	for after := (*string)(nil); ; {
		var p page
		err := c.until(ctx, func(ctx context.Context, s *Socket) (err error) {
			p, err = readPage(ctx, s, map[string]any{"id": room, "first": 500, "after": after})
			return err
		})
		if err != nil {
			return newest, err
		}
		stream.Got(p.messages...)
		if n := len(p.messages); n > 0 {
			newest = p.messages[n-1].Serial
		}
		if !p.more {
			stream.Complete = true
			return newest, nil
		}
		after = &p.end
	}
}

func unmarshal(b []byte, out any) error { return json.Unmarshal(b, out) }
