package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/test/chat"
	"github.com/chathome/chathome/test/chatlog"
	"github.com/chathome/chathome/test/check"
	"github.com/chathome/chathome/test/cluster"
)

// askEvery is the time between two questions to each instance: the resolution of the measurement.
const askEvery = 3 * time.Millisecond

// margins measures, for the default and the smallest allowed times, how long after the last question that an old owner
// answered well the new owner gives its first answer. Clients stay on both all the time, and ask most just before the
// old owner wakes. Negative means two owners at once.
//
// The question counts and not the answer: a process that is stopped between its last look at the lease and the write
// to the socket lets an answer out later that was true when it was asked for, and nobody can tell the difference.
func margins(ctx context.Context, o options) (clean bool, err error) {
	fmt.Printf("margin between the last question that the old owner answered and the new owner's first answer; %d times each, seed %d\n\n", o.phases, o.seed)
	fmt.Printf("%-16s %-30s %8s %5s %9s %9s %9s %9s\n", "times", "fault", "moved", "kept", "least", "median", "most", "negative")
	clean = true
	for n, s := range []setting{{"default times", 6 * time.Second, nil}, shortest()} {
		ok, err := marginsOf(ctx, o, s, o.seed+uint64(n))
		if err != nil {
			return false, err
		}
		clean = clean && ok
	}
	return clean, nil
}

// fence is one measured kind of loss.
type fence struct {
	name string
	// lose takes the owner away; awaken ends that, after the new owner has answered or was waited for.
	lose   func(i *cluster.Instance) error
	awaken func(i *cluster.Instance) error
	// early wakes the owner near the end of its session instead of after the new owner's first answer.
	early bool
}

func fences() []fence {
	stop := func(i *cluster.Instance) error { return i.Pause() }
	wake := func(i *cluster.Instance) error { return i.Resume() }
	heal := func(i *cluster.Instance) error { i.Link.Heal(); return nil }
	return []fence{
		{"SIGSTOP, woken after", stop, wake, false},
		{"SIGSTOP, woken near the end", stop, wake, true},
		{"SIGSTOP, woken alone", stop, func(i *cluster.Instance) error { // without a broker that tells what it missed
			i.Link.Stall()
			time.AfterFunc(700*time.Millisecond, i.Link.Heal)
			return i.Resume()
		}, false},
		{"half-open links", func(i *cluster.Instance) error { i.Link.Silence(); return nil }, heal, false},
		{"half-open, healed near the end", func(i *cluster.Instance) error { i.Link.Silence(); return nil }, heal, true},
		{"stalled links", func(i *cluster.Instance) error { i.Link.Stall(); return nil }, heal, false},
	}
}

// answers are those of one instance.
type answers struct {
	mu      sync.Mutex
	good    []check.Time // when they came
	asked   []check.Time // the questions of the good ones
	refused []check.Time
}

func (a *answers) heard(asked, answered check.Time, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var said *chat.Error
	switch {
	case err == nil:
		a.good, a.asked = append(a.good, answered), append(a.asked, asked)
	case errors.As(err, &said):
		a.refused = append(a.refused, answered)
	}
}

// first returns the first good answer behind t.
func (a *answers) first(t check.Time) (check.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return firstBehind(a.good, t)
}

// firstRefusal returns the first refusal behind t.
func (a *answers) firstRefusal(t check.Time) (check.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return firstBehind(a.refused, t)
}

// last returns when the last question was asked that had a good answer before t.
func (a *answers) last(t check.Time) (at check.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, g := range a.good {
		if g < t {
			at = max(at, a.asked[i])
		}
	}
	return at
}

// tell prints what was answered from t on, run by run.
func (a *answers) tell(t check.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	type said struct {
		at   check.Time
		good bool
	}
	var all []said
	for _, at := range a.good {
		all = append(all, said{at, true})
	}
	for _, at := range a.refused {
		all = append(all, said{at, false})
	}
	slices.SortFunc(all, func(x, y said) int { return cmp.Compare(x.at, y.at) })
	for len(all) > 0 {
		run := slices.IndexFunc(all, func(s said) bool { return s.good != all[0].good })
		if run < 0 {
			run = len(all)
		}
		if all[run-1].at >= t {
			fmt.Printf("    %v to %v: %d good: %v\n", all[0].at, all[run-1].at, run, all[0].good)
		}
		all = all[run:]
	}
}

func firstBehind(list []check.Time, t check.Time) (at check.Time, ok bool) {
	for _, x := range list {
		if x > t && (!ok || x < at) {
			at, ok = x, true
		}
	}
	return at, ok
}

// bench is two instances, a room, and clients that ask both.
type bench struct {
	*cluster.Cluster
	net  *chat.Net
	ask  [2]*chat.Probe
	said [2]*answers
	rand *rand.Rand
	s    setting
}

func marginsOf(ctx context.Context, o options, s setting, seed uint64) (clean bool, err error) {
	c, err := cluster.New(cluster.Config{Program: o.program, Instances: 2, Links: true, Serve: s.flags})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := c.Start(starting); err != nil {
		return false, err
	}
	b := &bench{Cluster: c, net: chat.NewNet(&check.History{}), rand: rand.New(rand.NewPCG(seed, 5)), s: s}
	b.net.Know(c.URLs()...)
	host := b.net.NewChatter("host")
	defer host.Close()
	room := uuid.New()
	if err := host.Create(starting, room, "Margins"); err != nil {
		return false, err
	}
	asking, stop := context.WithCancel(ctx)
	var probes sync.WaitGroup
	for n, i := range c.Instances {
		b.said[n] = &answers{}
		p := b.net.NewProbe("stays-with-"+i.Name, i.URL, func() []uuid.UUID { return []uuid.UUID{room} })
		p.Every, p.Answered = askEvery, b.said[n].heard
		b.ask[n] = p
		probes.Go(func() { p.Run(asking) })
	}
	defer probes.Wait()
	defer stop()
	clean = true
	for _, f := range fences() {
		if o.only != "" && f.name != o.only {
			continue
		}
		var got []time.Duration
		kept, negative := 0, 0
		for range o.phases {
			m, moved, err := b.measure(ctx, f)
			if err != nil {
				return false, fmt.Errorf("%s, %s: %w", s.name, f.name, err)
			}
			if !moved {
				kept++
				continue
			}
			if m < 0 {
				negative++
			}
			got = append(got, m)
		}
		clean = clean && negative == 0
		slices.Sort(got)
		row := [3]time.Duration{}
		if len(got) > 0 {
			row = [3]time.Duration{got[0], got[len(got)/2], got[len(got)-1]}
		}
		ms := func(d time.Duration) string { return d.Round(time.Millisecond).String() }
		fmt.Printf("%-16s %-30s %8d %5d %9s %9s %9s %9d\n", s.name, f.name, len(got), kept, ms(row[0]), ms(row[1]), ms(row[2]), negative)
	}
	stop()
	probes.Wait()
	return b.judge(ctx, clean)
}

// judge holds all answers against the log.
func (b *bench) judge(ctx context.Context, clean bool) (bool, error) {
	var err error
	if b.net.History.Log, err = chatlog.Read(ctx, b.Brokers(), chatlog.Messages); err != nil {
		return false, err
	}
	v := check.Check(b.net.History)
	if !v.Clean() {
		for _, x := range v.Violations {
			fmt.Printf("%s: %s\n", x.Property, x.Text)
		}
	}
	return clean && v.Clean(), nil
}

// measure takes the owner away once. moved is false where the owner stayed the owner.
func (b *bench) measure(ctx context.Context, f fence) (margin time.Duration, moved bool, err error) {
	owner, err := b.settled(ctx)
	if err != nil {
		return 0, false, err
	}
	old, other := b.said[owner], b.said[1-owner]
	time.Sleep(time.Duration(b.rand.Int64N(int64(500 * time.Millisecond)))) // any phase of its heartbeats
	began := b.net.Clock()
	if err := f.lose(b.Instances[owner]); err != nil {
		return 0, false, err
	}
	limit := began + b.s.session + 15*time.Second
	wake := limit
	if f.early {
		wake = began + b.s.session - 700*time.Millisecond + time.Duration(b.rand.Int64N(int64(time.Second)))
	}
	awake := false
	var first check.Time
	for {
		now := b.net.Clock()
		at, answered := other.first(began)
		if !awake && (answered || now > wake) {
			awake = true
			b.ask[owner].Burst(ctx)
			if err := f.awaken(b.Instances[owner]); err != nil {
				return 0, false, err
			}
			if !answered {
				limit = now + 3*time.Second // it may have come back in time
			}
		}
		if answered {
			first = at
			break
		}
		if now > limit {
			return 0, false, nil
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(2 * time.Second) // for late answers of the old owner
	// From the new owner's first refusal on, the old one may be the owner again, by right.
	until, again := other.firstRefusal(first)
	if !again {
		until = b.net.Clock()
	}
	margin = first - old.last(until)
	if margin < 0 {
		for n, i := range b.Instances {
			fmt.Printf("  %s (owner before: %v, new owner's first answer at %v):\n", i.Name, n == owner, first)
			b.said[n].tell(began)
		}
	}
	return margin, true, nil
}

// settled waits until exactly one instance has answered for a second, and both are ready.
func (b *bench) settled(ctx context.Context) (owner int, err error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		if err := b.WaitReady(ctx); err != nil {
			return 0, err
		}
		since := b.net.Clock()
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		_, zero := b.said[0].first(since)
		_, one := b.said[1].first(since)
		if zero != one {
			if one {
				owner = 1
			}
			if _, refused := b.said[owner].firstRefusal(since); !refused {
				return owner, nil
			}
		}
	}
}
