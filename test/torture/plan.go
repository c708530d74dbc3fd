package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// lanes is how many faults are under way at once, each on something of its own.
const lanes = 2

// plan hands out faults: each kind once before any comes again.
type plan struct {
	mu    sync.Mutex
	rand  *rand.Rand
	kinds []fault
	bag   []fault
	busy  map[string]bool // instances, and the others that faults are on
}

func newPlan(seed uint64, kinds []fault) *plan {
	return &plan{rand: rand.New(rand.NewPCG(seed, 3)), kinds: kinds, busy: map[string]bool{}}
}

// What faults are on, beside instances.
const theBroker, theClients, theLog, everything = "broker", "clients", "log", "all"

// next takes a fault whose target is free, and the target: -1 for none. free gives it back.
func (p *plan) next(instances []string) (f fault, i int, free func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.bag) == 0 {
		p.bag = append(p.bag, p.kinds...)
		p.rand.Shuffle(len(p.bag), func(a, b int) { p.bag[a], p.bag[b] = p.bag[b], p.bag[a] })
	}
	for n, f := range p.bag {
		var takes []string
		i := -1
		switch f.target {
		case broker:
			takes = []string{theBroker}
		case all:
			takes = append(append(takes, instances...), theBroker)
		case clients:
			takes = []string{theClients}
		case topic:
			takes = []string{theLog}
		default:
			i = p.rand.IntN(len(instances))
			if f.name == "full disk" {
				i = 0 // the one with the small disk
			}
			takes = []string{instances[i]}
		}
		taken := false
		for _, name := range takes {
			taken = taken || p.busy[name]
		}
		if taken {
			continue
		}
		for _, name := range takes {
			p.busy[name] = true
		}
		p.bag = append(p.bag[:n:n], p.bag[n+1:]...)
		return f, i, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, name := range takes {
				delete(p.busy, name)
			}
		}, true
	}
	return fault{}, 0, nil, false
}

// idle says that nothing is being done to an instance on purpose.
func (p *plan) idle(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.busy[name]
}

// breaking uses faults until ctx ends, and returns when all are healed.
func (r *round) breaking(ctx context.Context) {
	var names []string
	for _, i := range r.cluster.Instances {
		names = append(names, i.Name)
	}
	var wg sync.WaitGroup
	for lane := range lanes {
		wg.Go(func() {
			h := hit{round: r, rand: rand.New(rand.NewPCG(r.seed, uint64(10+lane)))}
			for h.hold(ctx, h.between(200*time.Millisecond, 2*r.session)); ctx.Err() == nil; h.hold(ctx, h.between(0, 2*r.session)) {
				f, n, free, ok := r.plan.next(names)
				if !ok {
					h.hold(ctx, 100*time.Millisecond)
					continue
				}
				on := map[target]string{broker: theBroker, clients: theClients, topic: theLog, all: everything}[f.target]
				if n >= 0 {
					h.i, on = r.cluster.Instances[n], names[n]
				}
				r.note("%s on %s", f.name, on)
				began := time.Now()
				bit, err := f.do(ctx, h)
				free()
				switch {
				case errors.Is(err, errNoDisk):
					r.skip(f.name)
				case err != nil:
					r.fail("%s on %s: %v", f.name, on, err)
				default:
					r.count(f.name, bit)
				}
				r.note("end of %s on %s after %v: bit %d times", f.name, on, time.Since(began).Round(time.Millisecond), bit)
			}
		})
	}
	wg.Wait()
}
