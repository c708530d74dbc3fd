//go:build kafka

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/test/chat"
	"github.com/chathome/chathome/test/check"
	"github.com/chathome/chathome/test/cluster"
	"github.com/chathome/chathome/test/corpus"
	"github.com/chathome/chathome/test/kafka"
	"github.com/chathome/chathome/test/traffic"
)

// roundsEnv says how often each fault strikes; default: once.
const roundsEnv = "CHATHOME_KAFKA_ROUNDS"

// battle is three brokers, three instances behind links, and a crowd of WebSocket clients.
type battle struct {
	t       *testing.T
	brokers *kafka.Cluster
	cluster *cluster.Cluster
	net     *chat.Net
}

// fault is one thing that goes wrong, and is mended.
type fault struct {
	name   string
	strike func(b *battle, round int) (mend func())
	lasts  time.Duration // between strike and mend
	rest   time.Duration // after it was mended, before the next one
}

func faults() []fault {
	return []fault{
		{"kill -9 of a broker, restarted after 8 s", func(b *battle, round int) func() { return b.kill(b.other(round)) }, 8 * time.Second, 10 * time.Second},
		{"kill -9 of the coordinator's broker, restarted after 8 s", func(b *battle, _ int) func() { return b.kill(b.coordinator()) }, 8 * time.Second, 10 * time.Second},
		{"SIGSTOP of a broker for 4 s", func(b *battle, round int) func() { return b.pause(b.other(round)) }, 4 * time.Second, 8 * time.Second},
		{"SIGSTOP of the coordinator's broker for 10 s", func(b *battle, _ int) func() { return b.pause(b.coordinator()) }, 10 * time.Second, 10 * time.Second},
		{"two of three brokers down for 6 s", func(b *battle, round int) func() {
			first, second := b.brokers.Node(1+round%3), b.brokers.Node(1+(round+1)%3)
			up, up2 := b.kill(first), b.kill(second)
			return func() { up(); up2() }
		}, 6 * time.Second, 15 * time.Second},
		{"all brokers restarted in turn", func(b *battle, _ int) func() {
			for _, n := range b.brokers.Nodes() {
				b.must(n.Stop(), n.Start(), b.brokers.Ready(b.t.Context()))
				time.Sleep(time.Second)
			}
			return func() {}
		}, 0, 8 * time.Second},
		{"an instance's connections cut for 4 s", func(b *battle, round int) func() {
			l := b.cluster.Instances[round%3].Link
			l.Cut()
			return l.Heal
		}, 4 * time.Second, 5 * time.Second},
		{"an instance's connections half open for 10 s", func(b *battle, round int) func() {
			l := b.cluster.Instances[round%3].Link
			l.Silence()
			return l.Heal
		}, 10 * time.Second, 8 * time.Second},
		{"kill -9 of an instance, restarted after 8 s", func(b *battle, round int) func() {
			i := b.cluster.Instances[round%3]
			b.must(i.Kill())
			return func() { b.must(i.Start()) }
		}, 8 * time.Second, 6 * time.Second},
		{"SIGTERM of an instance, restarted after 2 s", func(b *battle, round int) func() {
			i := b.cluster.Instances[round%3]
			b.must(i.Stop(12 * time.Second))
			return func() { b.must(i.Start()) }
		}, 2 * time.Second, 5 * time.Second},
		{"SIGSTOP of an instance for 8 s", func(b *battle, round int) func() {
			i := b.cluster.Instances[round%3]
			b.must(i.Pause())
			return func() { b.must(i.Resume()) }
		}, 8 * time.Second, 6 * time.Second},
	}
}

func (b *battle) must(errs ...error) {
	if err := errors.Join(errs...); err != nil {
		b.t.Error(err)
	}
}

func (b *battle) kill(n *kafka.Node) func() {
	b.must(n.Kill())
	return func() { b.must(n.Start()) }
}

func (b *battle) pause(n *kafka.Node) func() {
	b.must(n.Pause())
	return func() { b.must(n.Resume()) }
}

// coordinator is the node that coordinates the group.
func (b *battle) coordinator() *kafka.Node {
	var id int32
	eventually(b.t, 30*time.Second, "find the coordinator", func() error {
		res := b.brokers.Admin.FindGroupCoordinators(within(b.t, 5*time.Second), "chathome")
		c := res["chathome"]
		id = c.NodeID
		return c.Err
	})
	return b.brokers.Node(int(id))
}

// other is a node that does not.
func (b *battle) other(round int) *kafka.Node {
	id := b.coordinator().ID
	return b.brokers.Node(1 + (id+round%2)%3)
}

// Whatever happens to brokers, instances and the ways between them: the four views agree, and the table says how
// long rooms could not be written to.
func TestFaults(t *testing.T) {
	rounds := 1
	if s := os.Getenv(roundsEnv); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			t.Fatalf("%s=%s", roundsEnv, s)
		}
		rounds = n
	}
	b := &battle{t: t, brokers: start(t, kafka.Config{Nodes: 3, Properties: kafka.Quick()}), net: chat.NewNet(&check.History{})}
	var err error
	b.cluster, err = cluster.New(cluster.Config{Program: program(t), Dir: workDir(t), Brokers: b.brokers.Addrs(), Links: true, Serve: []string{"--shards", fmt.Sprint(shards)}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.cluster.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	b.must(b.cluster.Start(ctx))
	b.net.Know(b.cluster.URLs()...)
	crowd, err := traffic.Start(ctx, b.net, traffic.Config{Seed: uint64(time.Now().UnixNano()), Rooms: 12, Writers: 16, Pace: 40 * time.Millisecond, Texts: corpus.Load(), Probes: b.cluster.URLs()})
	if err != nil {
		t.Fatal(err)
	}
	endPulses := b.pulses(ctx)
	time.Sleep(3 * time.Second)

	type window struct{ from, to check.Time }
	windows := map[string][]window{}
	first := rand.IntN(3) // whom the faults strike first
	for round := first; round < first+rounds; round++ {
		for _, f := range faults() {
			w := window{from: b.net.Clock()}
			mend := f.strike(b, round)
			time.Sleep(f.lasts)
			mend()
			b.must(b.brokers.Ready(ctx))
			time.Sleep(f.rest)
			w.to = b.net.Clock()
			windows[f.name] = append(windows[f.name], w)
		}
	}
	endPulses()
	crowd.Quiet(30 * time.Second)
	sctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	b.must(crowd.Settle(sctx))
	v, err := crowd.Judge(sctx, b.brokers.Addrs())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.WriteTo(t.Output()); err != nil {
		t.Error(err)
	}
	if !v.Clean() || v.Messages < 1000 {
		t.Errorf("%d messages, %v broken", v.Messages, v.Broken)
	}

	// Beside the crowd, whose writers do one thing at a time in all rooms: a client for each shard that does nothing else.
	stored := map[string][]check.Time{}
	for _, s := range b.net.History.Sends {
		if s.Outcome == check.Stored && !s.Duplicate {
			stored[s.Client] = append(stored[s.Client], s.Returned)
		}
	}
	table := "\n| fault | times | shards hit | p50 | max |\n|---|---|---|---|---|\n"
	for _, f := range faults() {
		var gaps []time.Duration
		for _, w := range windows[f.name] {
			for s := range shards {
				if gap := longest(stored[pulse(s)], w.from, w.to); gap > noticed {
					gaps = append(gaps, gap)
				}
			}
		}
		slices.Sort(gaps)
		t.Logf("%s: %v", f.name, gaps)
		p50, most := time.Duration(0), time.Duration(0)
		if n := len(gaps); n > 0 {
			p50, most = gaps[n/2], gaps[n-1]
		}
		times := len(windows[f.name])
		table += fmt.Sprintf("| %s | %d | %.1f of %d | %.1f s | %.1f s |\n", f.name, times, float64(len(gaps))/float64(times), shards, p50.Seconds(), most.Seconds())
	}
	fmt.Fprintln(t.Output(), table)
}

const (
	shards = 6
	// noticed is the least time without service that counts as a hit: the clients send every 40 ms.
	noticed = 400 * time.Millisecond
	// impatient is how long a client waits for an answer before it asks another instance.
	impatient = time.Second
)

func pulse(shard int) string { return fmt.Sprint("pulse-", shard) }

// pulses sends to a room of each shard until end is called, which returns when the last message of each is known to be
// stored.
func (b *battle) pulses(ctx context.Context) (end func()) {
	const last = 30 * time.Second
	ctx, give := context.WithCancel(ctx)
	still := make(chan struct{})
	var all sync.WaitGroup
	for shard := range shards {
		room := uuid.New()
		for int(domain.ShardOf(room, shards)) != shard {
			room = uuid.New()
		}
		c := b.net.NewChatter(pulse(shard))
		c.Attempt = impatient
		b.must(c.Create(ctx, room, pulse(shard)))
		all.Go(func() {
			defer c.Close()
			for n := 0; ; n++ {
				if _, err := c.Send(ctx, room, fmt.Sprint(n), "Are you there?"); err != nil {
					b.t.Errorf("%s: message %d: %v", pulse(shard), n, err)
					return
				}
				select {
				case <-time.After(40 * time.Millisecond):
				case <-still:
					return
				}
			}
		})
	}
	return func() {
		close(still)
		defer time.AfterFunc(last, give).Stop()
		all.Wait()
		give()
	}
}

// longest is the longest time between two of the moments within a window.
func longest(moments []check.Time, from, to check.Time) time.Duration {
	slices.Sort(moments)
	var most time.Duration
	last := from
	for _, m := range append(slices.Clone(moments), to) {
		if m < from || m > to {
			continue
		}
		most = max(most, m-last)
		last = m
	}
	return most
}
