package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/chathome/chathome/test/cluster"
)

// A fault breaks something, holds it, and heals it. It returns how often it bit: 0 says that nothing was hurt.
type fault struct {
	name   string
	target target
	do     func(ctx context.Context, h hit) (bit int64, err error)
}

type target int

const (
	instance target = iota // one instance, for itself
	broker                 // the broker, or one of them
	all                    // the cluster
	clients                // the clients
	topic                  // the log
)

// hit is one use of a fault.
type hit struct {
	*round
	i    *cluster.Instance
	rand *rand.Rand
}

// between draws a time.
func (h hit) between(low, high time.Duration) time.Duration {
	return low + time.Duration(h.rand.Int64N(int64(high-low)+1))
}

// hold waits, or until the breaking is over: a fault is healed in any case.
func (h hit) hold(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// An error of a fault is a fault of the product, or of the harness: either fails the round.
func faults() []fault {
	return []fault{
		{"kill -9", instance, func(ctx context.Context, h hit) (int64, error) {
			if err := h.i.Kill(); err != nil {
				return 0, err
			}
			h.hold(ctx, h.between(0, 2*h.session))
			return 1, h.i.Start()
		}},
		{"kill -9 and back at once", instance, func(_ context.Context, h hit) (int64, error) {
			if err := h.i.Kill(); err != nil {
				return 0, err
			}
			return 1, h.i.Start()
		}},
		{"graceful restart", instance, func(ctx context.Context, h hit) (int64, error) {
			if err := h.i.Stop(stopLimit); err != nil {
				return 1, err
			}
			h.hold(ctx, h.between(0, h.session))
			return 1, h.i.Start()
		}},
		{"SIGSTOP, short", instance, func(ctx context.Context, h hit) (int64, error) {
			return pause(ctx, h, h.between(100*time.Millisecond, h.session/2))
		}},
		{"SIGSTOP beyond the session", instance, func(ctx context.Context, h hit) (int64, error) {
			return pause(ctx, h, h.session+h.between(time.Second, 5*time.Second))
		}},
		{"SIGSTOP, woken alone", instance, func(ctx context.Context, h hit) (int64, error) {
			// It wakes and nobody tells it what it missed: only its own clock can.
			if err := h.i.Pause(); err != nil {
				return 0, err
			}
			h.hold(ctx, h.session+h.between(1500*time.Millisecond, 4*time.Second))
			h.i.Link.Stall()
			h.burst()
			err := h.i.Resume()
			for range 4 {
				h.hold(ctx, h.between(50*time.Millisecond, 250*time.Millisecond))
				h.burst()
			}
			h.i.Link.Heal()
			return 1, err
		}},
		{"cut links", instance, func(ctx context.Context, h hit) (int64, error) {
			before := h.i.Link.Resets.Load()
			h.i.Link.Cut()
			h.hold(ctx, h.between(0, h.session*3/2))
			h.i.Link.Heal()
			return h.i.Link.Resets.Load() - before, nil
		}},
		{"stalled links", instance, func(ctx context.Context, h hit) (int64, error) {
			before := h.i.Link.Delayed.Load()
			h.i.Link.Stall()
			h.hold(ctx, h.between(200*time.Millisecond, h.session+3*time.Second))
			h.burst()
			h.i.Link.Heal()
			return h.i.Link.Delayed.Load() - before, nil
		}},
		{"half-open links", instance, func(ctx context.Context, h hit) (int64, error) {
			before := h.i.Link.Swallowed.Load()
			h.i.Link.Silence()
			h.hold(ctx, h.between(200*time.Millisecond, h.session+3*time.Second))
			h.burst()
			h.i.Link.Heal()
			return h.i.Link.Swallowed.Load() - before, nil
		}},
		{"slow links", instance, func(ctx context.Context, h hit) (int64, error) {
			before := h.i.Link.Delayed.Load()
			h.i.Link.Slow(h.between(10*time.Millisecond, 400*time.Millisecond))
			h.hold(ctx, h.between(time.Second, 5*time.Second))
			h.i.Link.Heal()
			return h.i.Link.Delayed.Load() - before, nil
		}},
		{"lost acks", instance, func(ctx context.Context, h hit) (int64, error) {
			before := h.i.Link.LostAcks.Load()
			h.i.Link.LoseAcks(1 + h.rand.IntN(6))
			h.hold(ctx, h.between(500*time.Millisecond, 3*time.Second))
			h.i.Link.LoseAcks(0)
			return h.i.Link.LostAcks.Load() - before, nil
		}},
		{"broker kill -9", broker, func(ctx context.Context, h hit) (int64, error) {
			return away(ctx, h, 0, 4*time.Second, node.Kill, restart)
		}},
		{"broker restart", broker, func(ctx context.Context, h hit) (int64, error) {
			return away(ctx, h, 0, 2*time.Second, node.Stop, restart)
		}},
		{"broker SIGSTOP", broker, func(ctx context.Context, h hit) (int64, error) {
			return away(ctx, h, 200*time.Millisecond, h.session+2*time.Second, node.Pause, resume)
		}},
		{"all killed", all, func(ctx context.Context, h hit) (int64, error) {
			var killed int64
			for _, i := range h.cluster.Instances {
				if err := i.Kill(); err != nil {
					return killed, err
				}
				killed++
			}
			for _, i := range h.cluster.Instances {
				h.hold(ctx, h.between(0, time.Second))
				if err := i.Start(); err != nil {
					return killed, err
				}
			}
			return killed, nil
		}},
		{"rolling restart", all, func(ctx context.Context, h hit) (int64, error) {
			var restarted int64
			for _, i := range h.cluster.Instances {
				if err := i.Stop(stopLimit); err != nil {
					return restarted, err
				}
				restarted++
				if err := i.Start(); err != nil {
					return restarted, err
				}
				h.hold(ctx, h.between(0, 2*time.Second))
			}
			return restarted, nil
		}},
		{"clients' connections reset", clients, func(ctx context.Context, h hit) (bit int64, err error) {
			for range 1 + h.rand.IntN(20) {
				bit += h.net.Reset(1 + h.rand.IntN(4))
				h.hold(ctx, h.between(0, 300*time.Millisecond))
			}
			return bit, nil
		}},
		{"subscribers that do not read", clients, func(ctx context.Context, h hit) (int64, error) {
			d := h.between(time.Second, 8*time.Second)
			h.net.Hold(d)
			h.hold(ctx, d)
			h.net.Hold(0)
			return 1, nil
		}},
		{"foreign records", topic, foreign},
		{"full disk", instance, fullDisk},
		{"damaged store", instance, damagedStore},
		{"lost store", instance, func(ctx context.Context, h hit) (int64, error) {
			if err := h.i.Kill(); err != nil {
				return 0, err
			}
			if err := h.i.RemoveStore(); err != nil {
				return 0, err
			}
			return 1, h.i.Start()
		}},
	}
}

func pause(ctx context.Context, h hit, d time.Duration) (int64, error) {
	if err := h.i.Pause(); err != nil {
		return 0, err
	}
	h.hold(ctx, d)
	h.burst()
	return 1, h.i.Resume()
}

// burst asks the instance just before it is healed, when it is most likely to believe what is not true any more.
func (h hit) burst() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	h.crowd.Burst(ctx, h.i.URL)
}

// faultsOf are those that can strike where there are so many brokers.
func faultsOf(brokers int) []fault {
	list := faults()
	if brokers > 1 {
		list = append(list, fault{"all brokers but one killed", broker, mostAway})
	}
	return list
}

func names(list []fault) []string {
	var names []string
	for _, f := range list {
		names = append(names, f.name)
	}
	return names
}

// choose returns the faults that were named, or all that can strike.
func choose(only string, brokers int) ([]fault, error) {
	all := faultsOf(brokers)
	if only == "" {
		return all, nil
	}
	var list []fault
	for _, name := range strings.Split(only, ",") {
		name = strings.TrimSpace(name)
		i := slices.Index(names(all), name)
		if i < 0 {
			return nil, fmt.Errorf("no fault is called %q; there are %s", name, strings.Join(names(all), ", "))
		}
		list = append(list, all[i])
	}
	return list, nil
}
