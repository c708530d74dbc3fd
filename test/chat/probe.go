package chat

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/test/check"
)

// Probe asks one instance again and again, wherever the rooms are served, and waits for no answer before it asks
// anew: what is asked of a process that stands still is answered when it goes on, and must not be stale then.
type Probe struct {
	net  *Net
	url  string
	name string
	// Rooms are asked in turn.
	Rooms func() []uuid.UUID
	// Every is the time between two questions; every eighth is a message to send, once and never again.
	Every time.Duration
	now   chan chan struct{}
	// Answered, if set, hears of each answer to a read: err is nil for a good one. An answer to a message is no sign
	// of ownership: it may rightly come later, when the log has told how the message ended.
	Answered func(asked, answered check.Time, err error)
}

// Bounds of the questions that wait for an answer: together below what a server allows on one connection, 100.
const (
	maxAsked = 60
	maxBurst = 30
)

// probeLimit bounds one question.
const probeLimit = 20 * time.Second

// NewProbe makes one for an instance.
func (n *Net) NewProbe(name, url string, rooms func() []uuid.UUID) *Probe {
	return &Probe{net: n, name: name, url: url, Rooms: rooms, Every: 150 * time.Millisecond, now: make(chan chan struct{})}
}

// Burst asks many questions at once, and returns when the questions have been sent: the moment before a process
// that stood still goes on.
func (p *Probe) Burst(ctx context.Context) {
	sent := make(chan struct{})
	select {
	case p.now <- sent:
	case <-ctx.Done():
		return
	}
	select {
	case <-sent:
	case <-ctx.Done():
	}
}

// Run asks until ctx ends.
func (p *Probe) Run(ctx context.Context) {
	var socket *Socket
	var asked sync.WaitGroup
	defer func() {
		if socket != nil {
			socket.Close()
		}
		asked.Wait()
	}()
	tickets := make(chan struct{}, maxAsked)
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	for n := 0; ; n++ {
		var burst chan struct{}
		select {
		case <-tick.C:
		case burst = <-p.now:
		case <-ctx.Done():
			return
		}
		if socket != nil {
			select {
			case <-socket.Ended():
				socket = nil
			default:
			}
		}
		if socket == nil {
			dctx, cancel := context.WithTimeout(ctx, dialTimeout)
			s, err := Dial(dctx, p.url)
			cancel()
			if err != nil {
				if burst != nil {
					close(burst)
				}
				continue
			}
			socket = s
		}
		rooms := p.Rooms()
		if burst != nil {
			s := socket
			for k := range maxBurst {
				asked.Go(func() { p.ask(ctx, s, rooms[k%len(rooms)], 0) })
			}
			time.AfterFunc(20*time.Millisecond, func() { close(burst) }) // on their way by then
			continue
		}
		select {
		case tickets <- struct{}{}:
		default:
			continue
		}
		s, room := socket, rooms[n%len(rooms)]
		asked.Go(func() {
			defer func() { <-tickets }()
			p.ask(ctx, s, room, n)
		})
	}
}

func (p *Probe) ask(ctx context.Context, s *Socket, room uuid.UUID, n int) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	invoked := p.net.Clock()
	if n%8 == 7 {
		out, _ := send(ctx, s, room, p.name, fmt.Sprintf("%s-%d", p.name, n), "Is anybody there?") // the outcome says it
		out.Client, out.Instance, out.Invoked, out.Returned = p.name, p.url, invoked, p.net.Clock()
		p.net.History.Sent(out)
		return
	}
	newest, err := look(ctx, s, room)
	answered := p.net.Clock()
	if err == nil {
		p.net.History.Looked(check.Read{Client: p.name, Instance: p.url, Invoked: invoked, Returned: answered, Room: room, Newest: newest})
	}
	if p.Answered != nil {
		p.Answered(invoked, answered, err)
	}
}
