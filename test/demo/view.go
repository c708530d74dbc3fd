package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/chathome/chathome/test/chat"
	"github.com/chathome/chathome/test/cluster"
	"github.com/chathome/chathome/test/traffic"
)

// view is what there is to show. Any goroutine may change it.
type view struct {
	o       options
	sources string
	began   time.Time

	mu        sync.Mutex
	instances []*instanceView
	owners    map[int]string // by shard, as the directory knows them
	crowd     *traffic.Traffic
	events    []event
	rates     []int64 // messages stored, second by second
	lastCount int64
	watchers  sync.WaitGroup
}

type event struct {
	at    time.Duration
	text  string
	fault bool
}

type instanceView struct {
	*cluster.Instance
	gone   string // "stopped", "killed" while it is away on purpose
	ready  bool
	shards []chat.Shard // nil: nothing is known
}

func newView(o options, sources string) *view {
	return &view{o: o, sources: sources, began: time.Now(), owners: map[int]string{}}
}

func (v *view) event(format string, args ...any) { v.note(false, fmt.Sprintf(format, args...)) }

func (v *view) fault(err error) { v.note(true, err.Error()) }

func (v *view) note(fault bool, text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events = append(v.events, event{time.Since(v.began), text, fault})
}

// faults are what should not have happened to the cluster.
func (v *view) faults() []error {
	v.mu.Lock()
	defer v.mu.Unlock()
	var errs []error
	for _, e := range v.events {
		if e.fault {
			errs = append(errs, errors.New(e.text))
		}
	}
	return errs
}

// mark says that an instance is away on purpose, or with "" that it is not.
func (v *view) mark(name, gone string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, i := range v.instances {
		if i.Name == name {
			i.gone = gone
		}
	}
}

func (v *view) count(crowd *traffic.Traffic) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.crowd = crowd
}

// watch follows the shards of all instances, as any client can: by a subscription.
func (v *view) watch(ctx context.Context, c *cluster.Cluster) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, i := range c.Instances {
		iv := &instanceView{Instance: i}
		v.instances = append(v.instances, iv)
		v.watchers.Go(func() { v.follow(ctx, iv) })
		v.watchers.Go(func() { v.askReady(ctx, iv) })
	}
	v.watchers.Go(func() { v.measure(ctx) })
}

// wait waits for the watchers after their context has ended.
func (v *view) wait() { v.watchers.Wait() }

func (v *view) follow(ctx context.Context, i *instanceView) {
	for ctx.Err() == nil {
		dial, cancel := context.WithTimeout(ctx, 2*time.Second)
		s, err := chat.Dial(dial, i.URL)
		cancel()
		if err == nil {
			_ = s.Shards(ctx, func(shards []chat.Shard) { v.learn(i, shards) }) // its end is shown, its reason is not
			s.Close()
		}
		v.learn(i, nil)
		pause(ctx, 100*time.Millisecond)
	}
}

func (v *view) learn(i *instanceView, shards []chat.Shard) {
	v.mu.Lock()
	defer v.mu.Unlock()
	i.shards = shards
	for _, s := range shards {
		if s.State == "OPEN" {
			v.owners[s.Number] = i.Name
		} else if s.NotOwned != nil && s.NotOwned.Owner != nil && v.owners[s.Number] == "" {
			v.owners[s.Number] = s.NotOwned.Owner.Instance.ID
		}
	}
}

func (v *view) askReady(ctx context.Context, i *instanceView) {
	for ctx.Err() == nil {
		ready := false
		if i.Running() {
			ready, _ = i.Ready(ctx)
		}
		v.mu.Lock()
		i.ready = ready
		v.mu.Unlock()
		pause(ctx, 200*time.Millisecond)
	}
}

// measure keeps the messages stored, second by second.
func (v *view) measure(ctx context.Context) {
	for pause(ctx, time.Second); ctx.Err() == nil; pause(ctx, time.Second) {
		v.mu.Lock()
		if v.crowd != nil {
			n := v.crowd.Stored.Load()
			v.rates = append(v.rates, n-v.lastCount)
			v.lastCount = n
		}
		v.mu.Unlock()
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
