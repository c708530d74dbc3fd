package kafkasvc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

const (
	rollingShards = 12
	rollingPace   = 120 * time.Millisecond // of each shard's writer: 100 sends a second in all
)

// fleet is the instances that run, by name.
type fleet struct {
	mu    sync.Mutex
	homes map[string]*testHome
}

func (f *fleet) set(name string, h *testHome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if h == nil {
		delete(f.homes, name)
	} else {
		f.homes[name] = h
	}
}

func (f *fleet) list() (all []*testHome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.homes {
		all = append(all, h)
	}
	return all
}

// owner is who serves a shard; "" where nobody does.
func (f *fleet) owner(s domain.ShardID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, h := range f.homes {
		if h.gate.refusal(s) == nil {
			return name
		}
	}
	return ""
}

// lane is one shard's room with its writer, its follower and the clock of its outages.
type lane struct {
	info     domain.ChatRoomInfo
	sent     []domain.Message
	follower follower

	mu      sync.Mutex
	refused time.Duration
}

func (l *lane) write(ctx context.Context, t *testing.T, f *fleet) {
	for n := 0; ctx.Err() == nil; n++ {
		eventually(t, "send", func() (err error) {
			for _, h := range f.list() {
				var m domain.Message
				if m, _, err = send(h, l.info, "alice", fmt.Sprint(n), "text"); err == nil {
					l.sent = append(l.sent, m)
					return nil
				}
			}
			return err
		})
		_ = sleep(ctx, rollingPace)
	}
}

// watch looks every 5 ms whether anybody serves the shard.
func (l *lane) watch(ctx context.Context, f *fleet) {
	const step = 5 * time.Millisecond
	for sleep(ctx, step) == nil {
		if f.owner(l.info.Shard) == "" {
			l.mu.Lock()
			l.refused += step
			l.mu.Unlock()
		}
	}
}

func (l *lane) outage() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// A rolling restart, one instance of three after the other, under a hundred sends a second on twelve shards: how long
// each shard was refused by everybody, and how long who follows it heard nothing (go test -v shows the table). A join
// stops everybody for a moment, those whose shards stay too: that is the promise, and the moment is bounded.
func TestHome_RollingRestart(t *testing.T) {
	for _, policy := range []Policy{PolicyInstance, PolicyShard} {
		t.Run(string(policy), func(t *testing.T) {
			bubble(t, func(t *testing.T, c *kafkatest.Cluster) { rollingRestart(t, c, policy) })
		})
	}
}

func rollingRestart(t *testing.T, c *kafkatest.Cluster, policy Policy) {
	names := []string{"a", "b", "d"}
	disks := map[string]vfs.FS{}
	f := &fleet{homes: map[string]*testHome{}}
	start := func(name string) *testHome {
		if disks[name] == nil {
			disks[name] = vfs.NewMem()
		}
		h := join(t, c, name, func(cfg *Config) {
			cfg.Shards, cfg.Gate, cfg.DataDir, cfg.StoreFS = rollingShards, policy, "data", disks[name]
		})
		// Each answer of Kafka takes two milliseconds.
		h.link.Arm(kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: kafkatest.AnyKey, Count: -1, Delay: 2 * time.Millisecond})
		f.set(name, h)
		return h
	}
	settled := func() error {
		for s := range domain.ShardID(rollingShards) {
			if f.owner(s) == "" {
				return fmt.Errorf("shard %d has no owner", s)
			}
		}
		for _, h := range f.list() {
			if n := len(h.owns()); n != rollingShards/len(f.list()) {
				return fmt.Errorf("%s has %d shards", h.cfg.InstanceID, n)
			}
		}
		return nil
	}
	for _, name := range names {
		start(name)
	}
	eventually(t, "all shards owned", settled)

	ctx, cancel := context.WithCancel(t.Context())
	wctx, quiet := context.WithCancel(ctx)
	var writing, watching sync.WaitGroup
	lanes := make([]*lane, rollingShards)
	for s := range lanes {
		id := uuid.New()
		for domain.ShardOf(id, rollingShards) != domain.ShardID(s) {
			id = uuid.New()
		}
		l := &lane{}
		eventually(t, "create", func() (err error) {
			for _, h := range f.list() {
				if l.info, _, err = h.CreateChatRoom(ctx, id, fmt.Sprint("room ", s)); err == nil {
					return nil
				}
			}
			return err
		})
		lanes[s] = l
		writing.Go(func() { l.write(wctx, t, f) })
		watching.Go(func() { l.watch(ctx, f) })
		watching.Go(func() { l.follower.run(ctx, l.info, f.list) })
	}
	time.Sleep(3 * time.Second)

	var table strings.Builder
	fmt.Fprintf(&table, "policy %s\n%-8s %6s  %-15s  %-15s  %-15s\n", policy, "step", "moved", "refused, moved", "refused, stayed", "longest silence")
	step := func(what string, act func()) {
		owners := make([]string, rollingShards)
		before := make([]time.Duration, rollingShards)
		for s, l := range lanes {
			owners[s], before[s] = f.owner(domain.ShardID(s)), l.outage()
			l.follower.mark()
		}
		act()
		eventually(t, "all shards owned again", settled)
		time.Sleep(3 * time.Second)
		var moved, stayed, silences []time.Duration
		for s, l := range lanes {
			refused, silence := l.outage()-before[s], l.follower.longest()
			silences = append(silences, silence)
			if owners[s] != f.owner(domain.ShardID(s)) {
				moved = append(moved, refused)
			} else {
				stayed = append(stayed, refused)
			}
			// About a heartbeat until all have heard of it, and as much again for the rest of the way.
			if limit := 2 * l.heartbeat(f); refused > limit {
				t.Errorf("%s: shard %d was refused for %s, more than %s", what, s, refused, limit)
			} else if silence > limit+2*rollingPace {
				t.Errorf("%s: who follows shard %d heard nothing for %s", what, s, silence)
			}
		}
		fmt.Fprintf(&table, "%-8s %6d  %-15s  %-15s  %-15s\n", what, len(moved), spread(moved), spread(stayed), slices.Max(silences))
	}
	for _, name := range names {
		f.mu.Lock()
		old := f.homes[name]
		f.mu.Unlock()
		step("stop "+name, func() { f.set(name, nil); old.end() })
		step("start "+name, func() { start(name) })
	}
	t.Log("\n" + table.String())

	quiet()
	writing.Wait()
	for s, l := range lanes {
		eventually(t, "everything received", func() error {
			if n := len(l.follower.messages()); n < len(l.sent) {
				return fmt.Errorf("%d of %d", n, len(l.sent))
			}
			return nil
		})
		if !slices.Equal(l.follower.messages(), l.sent) {
			t.Errorf("shard %d: what was followed differs from what was answered", s)
		}
	}
	cancel()
	watching.Wait()
}

func (l *lane) heartbeat(f *fleet) time.Duration { return f.list()[0].cfg.Timeouts.Heartbeat }

// spread is the smallest and the largest.
func spread(d []time.Duration) string {
	if len(d) == 0 {
		return "-"
	}
	return fmt.Sprintf("%s to %s", slices.Min(d), slices.Max(d))
}
