package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/test/chat"
)

// Out of a hundred messages, how many are sent in a way that breaks careless servers.
const (
	repeated  = 5  // sent again after they were acknowledged
	changed   = 3  // sent again with another text: a mutation
	twice     = 4  // sent on two connections at once
	impatient = 6  // the client gives up after a moment, and tries again
	looked    = 12 // the room is read afterwards
	born      = 1  // a new room is made for it
)

// patient is longer than a server's own deadline for a request, 10 s.
const patient = 15 * time.Second

// writer is one person.
type writer struct {
	*Traffic
	name string
	rand *rand.Rand
	// Two connections, as of somebody with a phone and a laptop.
	chatter, twin *chat.Chatter
	next          int
}

func (t *Traffic) write(ctx context.Context, n int) {
	name := fmt.Sprintf("writer-%d", n+1)
	w := &writer{Traffic: t, name: name, rand: rand.New(rand.NewPCG(t.cfg.Seed, uint64(100+n))), chatter: t.Net.NewChatter(name), twin: t.Net.NewChatter(name)}
	defer w.chatter.Close()
	defer w.twin.Close()
	if n%2 == 1 { // patient ones hear what a server says at its own deadline
		w.chatter.Attempt, w.twin.Attempt = patient, patient
	}
	for {
		pause := t.cfg.Pace/2 + time.Duration(w.rand.Int64N(int64(t.cfg.Pace)+1))
		select {
		case <-time.After(pause):
		case <-t.quiet:
			return
		case <-ctx.Done():
			return
		}
		if w.message(ctx) != nil {
			return // ctx has ended
		}
	}
}

func (w *writer) percent(n int) bool { return w.rand.IntN(100) < n }

// message sends one message, in one of the ways in which clients do.
func (w *writer) message(ctx context.Context) error {
	rooms := w.Rooms()
	room := rooms[w.rand.IntN(len(rooms))]
	if w.cfg.Births && w.percent(born) {
		room = randomUUID(w.rand)
		if err := w.chatter.Create(ctx, room, "Side room of "+w.name); err != nil {
			return err
		}
		w.mu.Lock()
		w.rooms = append(w.rooms, room)
		w.mu.Unlock()
	}
	w.next++
	id, text := fmt.Sprintf("%s-%d", w.name, w.next), w.cfg.Texts.Text(w.rand)
	w.Sent.Add(1)
	if w.percent(impatient) {
		patience := w.chatter.Attempt
		w.chatter.Attempt = time.Duration(1+w.rand.IntN(30)) * time.Millisecond
		tctx, cancel := context.WithTimeout(ctx, 2*w.chatter.Attempt)
		_, _ = w.chatter.Send(tctx, room, id, text) // whatever: it is sent again
		cancel()
		w.chatter.Attempt = patience
	}
	var err error
	if w.percent(twice) {
		err = w.both(ctx, room, id, text)
	} else {
		_, err = w.chatter.Send(ctx, room, id, text)
	}
	if err != nil {
		return err
	}
	w.Stored.Add(1)
	if w.percent(repeated) {
		if _, err := w.twin.Send(ctx, room, id, text); err != nil {
			return err
		}
	}
	if w.percent(changed) {
		if _, err := w.chatter.Send(ctx, room, id, text+" (changed)"); err != nil {
			return err
		}
	}
	if w.percent(looked) {
		return w.chatter.Look(ctx, room)
	}
	return nil
}

// both sends on two connections at once.
func (w *writer) both(ctx context.Context, room uuid.UUID, id, text string) error {
	var wg sync.WaitGroup
	var other error
	wg.Go(func() { _, other = w.twin.Send(ctx, room, id, text) })
	_, err := w.chatter.Send(ctx, room, id, text)
	wg.Wait()
	if err == nil {
		err = other
	}
	return err
}
