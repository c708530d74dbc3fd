// Package traffic is a crowd of clients for a cluster under fire: writers that retry, repeat themselves, change
// their minds and give up early, two live subscribers a room, readers, and probes that stay with their instance
// whatever happens. At the end it collects the four views (answers, subscribers, history, log) for the judge.
package traffic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/test/chat"
	"github.com/chathome/chathome/test/chatlog"
	"github.com/chathome/chathome/test/check"
	"github.com/chathome/chathome/test/corpus"
)

// Config says how large the crowd is.
type Config struct {
	Seed    uint64
	Rooms   int           // rooms with subscribers
	Writers int           // each sends to all rooms
	Pace    time.Duration // of a writer, between two messages
	Births  bool          // writers make further rooms now and then
	Texts   *corpus.Corpus
	Probes  []string // instances that have a probe each
}

// Traffic is a running crowd.
type Traffic struct {
	Net *chat.Net

	// What happened so far.
	Sent     atomic.Int64 // messages that somebody began to send
	Stored   atomic.Int64 // of them, acknowledged
	Received atomic.Int64 // deliveries to live subscribers
	Resumes  atomic.Int64 // of subscribers

	cfg       Config
	mu        sync.Mutex
	rooms     []uuid.UUID // those with subscribers first
	followers []follower
	quiet     chan struct{} // closed when nothing new is to be sent
	silence   sync.Once
	writers   sync.WaitGroup
	listeners sync.WaitGroup
	probes    sync.WaitGroup
	probe     map[string]*chat.Probe // by the instance's URL
	hush      context.CancelFunc     // ends writers at once
	away      context.CancelFunc     // ends probes
	leave     context.CancelFunc     // ends subscribers
}

type follower struct {
	*chat.Follower
	room uuid.UUID
	name string
}

// Start makes the rooms and lets the crowd in. ctx ends everything at once.
func Start(ctx context.Context, net *chat.Net, cfg Config) (*Traffic, error) {
	t := &Traffic{Net: net, cfg: cfg, quiet: make(chan struct{}), probe: map[string]*chat.Probe{}}
	r := rand.New(rand.NewPCG(cfg.Seed, 1))
	host := net.NewChatter("host")
	defer host.Close()
	for n := range cfg.Rooms {
		id := randomUUID(r)
		if err := host.Create(ctx, id, fmt.Sprintf("Room %d", n+1)); err != nil {
			return nil, fmt.Errorf("make a room: %w", err)
		}
		t.rooms = append(t.rooms, id)
	}
	wctx, hush := context.WithCancel(ctx)
	pctx, away := context.WithCancel(ctx)
	lctx, leave := context.WithCancel(ctx)
	t.hush, t.away, t.leave = hush, away, leave
	for n, room := range t.rooms {
		for _, who := range []string{"first", "second"} {
			f := follower{room: room, name: fmt.Sprintf("the %s subscriber of room %d", who, n+1)}
			f.Follower = net.NewFollower(f.name, room)
			f.Heard = func(n int) { t.Received.Add(int64(n)) }
			t.followers = append(t.followers, f)
			t.listeners.Go(func() { f.Run(lctx) })
		}
	}
	for n := range cfg.Writers {
		t.writers.Go(func() { t.write(wctx, n) })
	}
	for n, url := range cfg.Probes {
		p := net.NewProbe(fmt.Sprintf("probe-%d", n+1), url, t.followed)
		t.probe[url] = p
		t.probes.Go(func() { p.Run(pctx) })
	}
	return t, nil
}

func randomUUID(r *rand.Rand) uuid.UUID {
	var id uuid.UUID
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // RFC 9562, version 4
	return id
}

// Rooms are all rooms so far; those with subscribers come first.
func (t *Traffic) Rooms() []uuid.UUID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rooms[:len(t.rooms):len(t.rooms)]
}

// followed are the rooms with subscribers: probes that ask for all would rarely ask for the same one again.
func (t *Traffic) followed() []uuid.UUID { return t.Rooms()[:t.cfg.Rooms] }

// Burst asks an instance with a probe for many rooms at once.
func (t *Traffic) Burst(ctx context.Context, url string) {
	if p := t.probe[url]; p != nil {
		p.Burst(ctx)
	}
}

// Quiet ends the writing: each writer is given up to limit to learn the end of its message.
func (t *Traffic) Quiet(limit time.Duration) {
	t.silence.Do(func() { close(t.quiet) })
	t.away()
	late := time.AfterFunc(limit, t.hush)
	defer late.Stop()
	t.writers.Wait()
	t.probes.Wait()
}

// Settle walks the history of all rooms and lets the subscribers get to its end. Call Quiet before. After an error
// the cluster did not serve in time; the history may be judged all the same.
func (t *Traffic) Settle(ctx context.Context) error {
	defer func() {
		t.leave()
		t.listeners.Wait()
		for _, f := range t.followers {
			f.Finish()
			t.Resumes.Add(f.Resumes.Load())
		}
	}()
	walker := t.Net.NewChatter("night-watch")
	defer walker.Close()
	ends := map[uuid.UUID]int64{}
	for n, room := range t.Rooms() {
		// A last word in each room: whatever nobody has been answered about is before it, or never comes.
		if _, err := walker.Send(ctx, room, fmt.Sprintf("end-%d", n), "Good night."); err != nil {
			return fmt.Errorf("send the last message of room %s: %w", room, err)
		}
		end, err := walker.Walk(ctx, room)
		if err != nil {
			return fmt.Errorf("walk the history of room %s: %w", room, err)
		}
		ends[room] = end
	}
	for _, f := range t.followers {
		for f.Newest() < ends[f.room] {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("%s is at %d of %d: %w", f.name, f.Newest(), ends[f.room], ctx.Err())
			}
		}
	}
	return nil
}

// Judge reads the log and judges the run. Call Settle before.
func (t *Traffic) Judge(ctx context.Context, brokers []string) (*check.Verdict, error) {
	log, err := chatlog.Read(ctx, brokers, chatlog.Messages)
	if err != nil {
		return nil, err
	}
	t.Net.History.Log = log
	return check.Check(t.Net.History), nil
}

// Abandon ends everything without an end.
func (t *Traffic) Abandon() {
	t.silence.Do(func() { close(t.quiet) })
	t.hush()
	t.away()
	t.leave()
	t.writers.Wait()
	t.probes.Wait()
	t.listeners.Wait()
}
