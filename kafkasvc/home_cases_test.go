package kafkasvc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// A retry answers the same message after half a minute, after six, after a restart of the owner without its local
// data, and on another owner.
func TestHome_DeduplicationNeverForgets(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		first := sendAnywhere(t, info, "alice", "lucky", "seven", a)
		for i := range 300 {
			sendAnywhere(t, info, "bob", fmt.Sprint(i), "filler", a)
		}
		again := func(when string, homes ...*testHome) {
			t.Helper()
			for range 5 {
				if m := sendAnywhere(t, info, "alice", "lucky", "seven", homes...); m != first {
					t.Errorf("%s: %+v", when, m)
				}
			}
		}
		again("at once", a)
		time.Sleep(31 * time.Second)
		again("after 31 s", a)
		time.Sleep(6 * time.Minute)
		again("after 6 min", a)
		a.end()
		b := join(t, c, "b").ready()
		again("on another owner", b)
		if n, _ := stored(t, c, "lucky"); n != 1 {
			t.Errorf("%d records count", n)
		}
	})
}

// The next owner's clock is three minutes behind: serials go on, and time does not step back within the room.
func TestHome_ClocksOfOwnersDiffer(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		one := sendAnywhere(t, info, "alice", "1", "one", a)
		a.end()
		b := join(t, c, "b", func(cfg *Config) {
			cfg.Now = func() time.Time { return time.Now().Add(-3 * time.Minute) }
		}).ready()
		two := sendAnywhere(t, info, "alice", "2", "two", b)
		if two.Serial != 2 || two.SentAt < one.SentAt {
			t.Errorf("%+v after %+v", two, one)
		}
		if got := b.history(info); got[0] != one || got[1] != two {
			t.Errorf("%+v", got)
		}
	})
}

// follower reads a room by feed and position, over all handovers, and fails on a gap or a repeat.
type follower struct {
	mu      sync.Mutex
	got     []domain.Message
	last    time.Time // when it heard something, or mark was called
	silence time.Duration
}

// mark begins to look for the longest silence anew.
func (f *follower) mark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.silence = time.Now(), 0
}

// longest is the longest time since mark in which it heard nothing.
func (f *follower) longest() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.silence
}

func (f *follower) messages() []domain.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.got)
}

func (f *follower) run(ctx context.Context, info domain.ChatRoomInfo, homes func() []*testHome) {
	for at := domain.Serial(0); ctx.Err() == nil; {
		for _, h := range homes() {
			room, err := h.ChatRoom(ctx, info.Shard, info.ID)
			if err != nil {
				continue
			}
			at = f.read(ctx, room, at)
		}
		if sleep(ctx, 10*time.Millisecond) != nil {
			return
		}
	}
}

func (f *follower) read(ctx context.Context, room domain.Room, at domain.Serial) domain.Serial {
	feed := room.Feed()
	wake := make(chan struct{}, 1)
	defer feed.Watch(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	})()
	for {
		for at < feed.Tip() {
			p, err := room.Messages(ctx, domain.Range{After: at, Limit: 100})
			if err != nil {
				return at
			}
			f.mu.Lock()
			f.got = append(f.got, p.Messages...)
			f.silence, f.last = max(f.silence, time.Since(f.last)), time.Now()
			f.mu.Unlock()
			at = p.Messages[len(p.Messages)-1].Serial
		}
		if feed.Err() != nil {
			return at
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return at
		}
	}
}

// 16 writers in parallel, two followers over three handovers, a rolling restart: everybody sees one
// and the same order.
func TestHome_OneOrderForAll(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		var mu sync.Mutex
		homes := []*testHome{join(t, c, "a").ready()}
		now := func() []*testHome {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(homes)
		}
		info := homes[0].room("kitchen")
		ctx, cancel := context.WithCancel(t.Context())
		one, two := &follower{}, &follower{}
		var following, writing sync.WaitGroup
		following.Go(func() { one.run(ctx, info, now) })
		following.Go(func() { two.run(ctx, info, now) })
		const writers, each = 16, 100
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					id := fmt.Sprint(i)
					eventually(t, "send", func() (err error) {
						for _, h := range now() {
							if _, _, err = send(h, info, fmt.Sprint("w", w), id, "text"); err == nil {
								return nil
							}
						}
						return err
					})
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		for i := range 3 {
			time.Sleep(500 * time.Millisecond)
			next := join(t, c, fmt.Sprint("next", i))
			mu.Lock()
			homes = append(homes, next)
			old := homes[0]
			mu.Unlock()
			next.ready()
			old.end()
			mu.Lock()
			homes = homes[1:]
			mu.Unlock()
		}
		writing.Wait()
		want := now()[0].history(info)
		if len(want) != writers*each {
			t.Errorf("%d messages, %d were sent", len(want), writers*each)
		}
		for name, f := range map[string]*follower{"one": one, "two": two} {
			eventually(t, name, func() error {
				if len(f.messages()) < len(want) {
					return fmt.Errorf("%d of %d", len(f.messages()), len(want))
				}
				return nil
			})
			if !slices.Equal(f.messages(), want) {
				t.Errorf("follower %s saw another order, a gap or a repeat", name)
			}
		}
		cancel()
		following.Wait()
	})
}

// Loading one shard takes a minute: the group stays stable, the other shards are served by shard policy, and a
// further rebalance only updates what is to be loaded.
func TestHome_SlowLoadingHoldsNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		var rooms []domain.ChatRoomInfo
		for i := range 40 {
			rooms = append(rooms, a.room(fmt.Sprint(i)))
		}
		a.end()
		b := join(t, c, "b", func(cfg *Config) { cfg.Gate = PolicyShard })
		slow := b.link.Arm(kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: kmsg.Fetch.Int16(), Topic: messages, Partitions: []int32{2}, Count: -1, Delay: 20 * time.Second})
		eventually(t, "the other shards", func() error {
			if n := len(b.owns()); n != 3 {
				return fmt.Errorf("%d open", n)
			}
			return nil
		})
		generations := b.counts.Generations.Load()
		time.Sleep(15 * time.Second)
		if n := b.counts.Generations.Load(); n != generations {
			t.Errorf("%d rebalances while a shard loads", n-generations)
		}
		no := b.gate.refusal(2)
		if no == nil || no.State != domain.ShardLoading || no.Progress == nil {
			t.Errorf("%+v", no)
		}
		d := join(t, c, "d", func(cfg *Config) { cfg.Gate = PolicyShard })
		eventually(t, "four shards on two instances", func() error {
			if n := len(b.owns()) + len(d.owns()); n != 4 {
				return fmt.Errorf("%d open", n)
			}
			return nil
		})
		if slow.Hits() == 0 {
			t.Error("nothing was slow")
		}
		for _, r := range rooms {
			sendAnywhere(t, r, "alice", "1", "hi", b, d)
		}
	})
}

// Brokers restart one after the other under load, leaders and the coordinator move: sends go on, within
// seconds, and nothing is lost.
func TestHome_BrokersRestart(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		var want []domain.Message
		longest := time.Duration(0)
		for i := range 120 {
			switch i % 30 {
			case 10:
				c.ShufflePartitionLeaders()
			case 15:
				c.RehashCoordinators()
			case 20: // as if the broker had gone and come back after a while
				a.link.Cut()
				time.AfterFunc(4*time.Second, a.link.Heal)
			case 25:
				c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat, kmsg.JoinGroup}, TopLevel: true, Count: 3})
			}
			began := time.Now()
			want = append(want, sendAnywhere(t, info, "alice", fmt.Sprint(i), "text", a))
			longest = max(longest, time.Since(began))
			time.Sleep(100 * time.Millisecond)
		}
		if longest > 30*time.Second {
			t.Errorf("no send succeeded for %s", longest)
		}
		if got := a.history(info); !slices.Equal(got, want) {
			t.Errorf("%d messages, %d were answered", len(got), len(want))
		}
	})
}

// A claim that fails is no claim: locked, tried again, never open before the takeover is acknowledged.
func TestHome_FailedTakeoverOpensNothing(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		a.end()
		b := join(t, c, "b")
		deny := b.link.Arm(kafkatest.Rule{Action: kafkatest.CutBefore, Key: kmsg.Produce.Int16(), Topic: messages, Count: -1})
		time.Sleep(20 * time.Second)
		var no *domain.ShardNotOwnedError
		if _, err := b.ChatRoom(t.Context(), info.Shard, info.ID); !errors.As(err, &no) || no.State != domain.ShardLocked {
			t.Errorf("%v", err)
		}
		if len(b.owns()) != 0 || deny.Hits() == 0 {
			t.Errorf("owns %v", b.owns())
		}
		deny.Stop()
		b.ready()
		sendAnywhere(t, info, "alice", "1", "one", b)
	})
}
