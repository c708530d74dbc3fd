package directory

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/internal/bubbletest"
)

// instance is one running directory with what it reported.
type instance struct {
	*Directory
	t     *testing.T
	store *memStore
	stop  func()
	log   *countingLog

	mu      sync.Mutex
	lives   []Life
	olds    []Life
	alarms  []Alarm
	rebuilt int
	owners  map[domain.ShardID]int
}

// countingLog keeps the messages.
type countingLog struct {
	mu   sync.Mutex
	said []string
}

func (c *countingLog) Enabled(context.Context, slog.Level) bool { return true }
func (c *countingLog) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *countingLog) WithGroup(string) slog.Handler            { return c }
func (c *countingLog) Handle(_ context.Context, r slog.Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, r.Message)
	return nil
}

func (c *countingLog) count(msg string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, s := range c.said {
		if s == msg {
			n++
		}
	}
	return n
}

// run starts an instance and stops it when the test ends.
func run(t *testing.T, topic Topic, name string, store *memStore, change ...func(*Config)) *instance {
	t.Helper()
	i := &instance{t: t, store: store, owners: map[domain.ShardID]int{}, log: &countingLog{}}
	cfg := Config{
		Topic: topic, Store: store, Shards: 4, Log: slog.New(i.log),
		Instance: domain.Instance{ID: name, URL: "http://" + name},
		Hooks: Hooks{
			NewLife: func(_ context.Context, old, now Life) error {
				i.mu.Lock()
				defer i.mu.Unlock()
				i.olds, i.lives = append(i.olds, old), append(i.lives, now)
				return nil
			},
			Rebuilt:      func() { i.mu.Lock(); defer i.mu.Unlock(); i.rebuilt++ },
			OwnerChanged: func(s domain.ShardID) { i.mu.Lock(); defer i.mu.Unlock(); i.owners[s]++ },
			Alarm:        func(a Alarm) { i.mu.Lock(); defer i.mu.Unlock(); i.alarms = append(i.alarms, a) },
		},
	}
	for _, c := range change {
		c(&cfg)
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	i.Directory = d
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = d.Run(ctx) }()
	i.stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(i.stop)
	return i
}

func (i *instance) life() Life {
	i.t.Helper()
	life, err := i.WaitLife(bounded(i.t))
	if err != nil {
		i.t.Fatalf("wait for the life: %v", err)
	}
	return life
}

func (i *instance) announce(ns ...int) {
	i.t.Helper()
	var infos []domain.ChatRoomInfo
	for _, n := range ns {
		infos = append(infos, roomInfo(n))
	}
	if err := i.Announce(bounded(i.t), infos...); err != nil {
		i.t.Fatalf("announce: %v", err)
	}
}

func (i *instance) list() []domain.ListedRoom {
	i.t.Helper()
	rooms, more, err := i.ChatRooms(bounded(i.t), 0, 1_000_000)
	if err != nil || more {
		i.t.Fatalf("list: more %v, %v", more, err)
	}
	return rooms
}

// sameLists waits until all views are at the topic's end and compares them.
func sameLists(t *testing.T, instances ...*instance) []domain.ListedRoom {
	t.Helper()
	var first []domain.ListedRoom
	for n, i := range instances {
		if err := i.upToDate(bounded(t)); err != nil {
			t.Fatal(err)
		}
		got := i.list()
		if n == 0 {
			first = got
		}
		if !slices.Equal(got, first) {
			t.Fatalf("instance %d lists %v\ninstance 0 lists %v", n, got, first)
		}
		if tip := i.Feed().Tip(); tip != domain.Serial(len(got)) {
			t.Fatalf("the feed's tip is %d of %d rooms", tip, len(got))
		}
	}
	for n, r := range first {
		if r.Serial != domain.Serial(n+1) {
			t.Fatalf("room %d of the list has serial %d", n, r.Serial)
		}
	}
	return first
}

func three(t *testing.T, topic *memTopic) []*instance {
	var all []*instance
	for n := range 3 {
		name := fmt.Sprintf("i%d", n)
		all = append(all, run(t, topic.as(name), name, newMemStore(), func(c *Config) { c.Shards = 4 + n }))
	}
	return all
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	bubbletest.Test(t, f)
}

// bounded is a context that ends long after everything should be over: a bubble's clock would run for ever.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
