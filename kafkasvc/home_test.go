package kafkasvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/membership"
)

// home lets testHome have a method Home.
type home = Home

// testHome is a running instance on a cluster in fake time.
type testHome struct {
	*home
	t    *testing.T
	link *kafkatest.Link
	stop context.CancelFunc
	done chan struct{}
}

func testConfig(c *kafkatest.Cluster, link *kafkatest.Link, id string) Config {
	epoch := time.Now()
	cfg := Config{
		Brokers: c.Addrs(), Dial: link.Dial, Shards: 4, InstanceID: id, AdvertisedURL: "http://" + id,
		DataDir: local.InMemory, SingleBroker: true,
		Timeouts: membership.DefaultTimeouts(),
		Clock:    func() time.Duration { return time.Since(epoch) + time.Hour },
	}
	if os.Getenv("TEST_LOG") != "" {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil)).With("instance", id)
	}
	return cfg
}

func startHome(t *testing.T, c *kafkatest.Cluster, cfg Config, link *kafkatest.Link) *testHome {
	t.Helper()
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	th := &testHome{home: h, t: t, link: link, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(th.done)
		if err := h.Run(ctx); err != nil {
			t.Errorf("%s: Run: %v", cfg.InstanceID, err)
		}
		if err := h.Close(); err != nil {
			t.Errorf("%s: Close: %v", cfg.InstanceID, err)
		}
	}()
	t.Cleanup(th.end)
	return th
}

func (h *testHome) end() {
	h.stop()
	<-h.done
}

// ready waits until the gate is open for all that is assigned.
func (h *testHome) ready() *testHome {
	h.t.Helper()
	eventually(h.t, "ready", func() error {
		if rs := h.Ready(); len(rs) > 0 {
			return fmt.Errorf("%+v", rs)
		}
		return nil
	})
	return h
}

func (h *testHome) owns() (owned []domain.ShardID) {
	for _, s := range h.Shards() {
		if s.State == domain.ShardOpen {
			owned = append(owned, s.Shard)
		}
	}
	return owned
}

// eventually waits in fake time.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	for range 6000 {
		if err = f(); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: %v", what, err)
}

// bubble runs f with a cluster in fake time.
func bubble(t *testing.T, f func(t *testing.T, c *kafkatest.Cluster), opts ...kfake.Opt) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) { f(t, kafkatest.Start(t, opts...)) })
}

// join starts an instance with a link of its own.
func join(t *testing.T, c *kafkatest.Cluster, id string, change ...func(*Config)) *testHome {
	t.Helper()
	link := c.NewLink()
	cfg := testConfig(c, link, id)
	for _, f := range change {
		f(&cfg)
	}
	return startHome(t, c, cfg, link)
}

func TestHome_KeepsTheContract(t *testing.T) {
	for _, claim := range domaintest.Contract() {
		t.Run(claim.Name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
				h := join(t, c, "a").ready()
				var armed *kafkatest.Armed
				claim.Check(t, domaintest.Subject{
					Home: h.home,
					Lock: func(t *testing.T, s domain.ShardID) { // no takeover gets through
						armed = h.link.Arm(kafkatest.Rule{
							Action: kafkatest.CutBefore, Key: kmsg.Produce.Int16(), Topic: messagesTopic("chathome"), Count: -1,
						})
						h.mu.Lock()
						g := h.tenancy.gen
						h.mu.Unlock()
						g.Rejoin(errors.New("the test wants it"))
						eventually(t, "locked", func() error {
							if h.gate.refusal(s) == nil {
								return errors.New("open")
							}
							return nil
						})
					},
					Open: func(t *testing.T, s domain.ShardID) {
						armed.Stop()
						eventually(t, "open", func() error {
							if no := h.gate.refusal(s); no != nil {
								return no
							}
							return nil
						})
					},
				})
			})
		})
	}
}

func send(h domain.ChatHome, room domain.ChatRoomInfo, user, id, text string) (domain.Message, bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := h.ChatRoom(ctx, room.Shard, room.ID)
	if err != nil {
		return domain.Message{}, false, err
	}
	return r.Send(ctx, domain.Draft{User: user, ClientID: id, Text: text})
}

// sendAnywhere tries instances until one stores it.
func sendAnywhere(t *testing.T, room domain.ChatRoomInfo, user, id, text string, homes ...*testHome) domain.Message {
	t.Helper()
	var m domain.Message
	eventually(t, "send "+id, func() (err error) {
		for _, h := range homes {
			if m, _, err = send(h, room, user, id, text); err == nil {
				return nil
			}
		}
		return err
	})
	return m
}

func TestHome_DefaultModeFetchesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		h := join(t, c, "a").ready()
		info, _, err := h.CreateChatRoom(t.Context(), h.DrawChatRoomID(), "kitchen")
		if err != nil {
			t.Fatal(err)
		}
		sendAnywhere(t, info, "alice", "0", "hi", h)
		before := c.Requests(kmsg.Fetch.Int16(), messagesTopic("chathome"))
		if before == 0 {
			t.Fatal("loading did not fetch: the count proves nothing")
		}
		for i := range 500 {
			sendAnywhere(t, info, "alice", fmt.Sprint("m", i), "hi", h)
			time.Sleep(50 * time.Millisecond)
		}
		if after := c.Requests(kmsg.Fetch.Int16(), messagesTopic("chathome")); after != before {
			t.Errorf("%d fetch requests for owned shards while open", after-before)
		}
	})
}

func TestHome_HandoverLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		var rooms []domain.ChatRoomInfo
		for i := range 12 {
			info, _, err := a.CreateChatRoom(t.Context(), a.DrawChatRoomID(), fmt.Sprint("room ", i))
			if err != nil {
				t.Fatal(err)
			}
			rooms = append(rooms, info)
		}
		want := map[uuid.UUID][]domain.Message{}
		var homes []*testHome
		post := func(round int) {
			for _, r := range rooms {
				for i := range 5 {
					m := sendAnywhere(t, r, "alice", fmt.Sprint(round, "-", i), "text", homes...)
					want[r.ID] = append(want[r.ID], m)
				}
			}
		}
		check := func() {
			t.Helper()
			for _, r := range rooms {
				var got []domain.Message
				eventually(t, "history", func() (err error) {
					for _, h := range homes {
						var room domain.Room
						if room, err = h.ChatRoom(t.Context(), r.Shard, r.ID); err == nil {
							var p domain.Page
							if p, err = room.Messages(t.Context(), domain.Range{Limit: 1000}); err == nil {
								got = p.Messages
								return nil
							}
						}
					}
					return err
				})
				if !slices.Equal(got, want[r.ID]) {
					t.Fatalf("room %s: history differs from the answers: %d and %d messages", r.Name, len(got), len(want[r.ID]))
				}
			}
		}
		homes = append(homes, a)
		post(0)
		b := join(t, c, "b")
		homes = append(homes, b)
		b.ready()
		a.ready()
		if len(a.owns()) != 2 || len(b.owns()) != 2 {
			t.Errorf("a owns %v, b owns %v", a.owns(), b.owns())
		}
		post(1)
		check()
		a.end() // a graceful stop
		homes = homes[1:]
		post(2)
		check()
		d := join(t, c, "d")
		homes = append(homes, d)
		d.ready()
		b.link.Silence() // a crash, seen from the others
		post(3)
		check()
		b.link.Heal()
		post(4)
		check()
	})
}

// The old owner's request is on its way while the new owner takes over: it must not be answered as stored, nor
// seen.
func TestHome_LateWriteOfAnOldOwnerIsVoid(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info, _, err := a.CreateChatRoom(t.Context(), a.DrawChatRoomID(), "kitchen")
		if err != nil {
			t.Fatal(err)
		}
		sendAnywhere(t, info, "alice", "1", "one", a)
		a.link.Arm(kafkatest.Rule{Action: kafkatest.LandLate, Key: kmsg.Produce.Int16(), Topic: messagesTopic("chathome"), Delay: 20 * time.Second})
		var late error
		var wg sync.WaitGroup
		wg.Go(func() { _, _, late = send(a, info, "alice", "2", "two") })
		time.Sleep(time.Millisecond)
		a.link.Silence()
		b := join(t, c, "b")
		m := sendAnywhere(t, info, "bob", "1", "of the new owner", b)
		if m.Serial != 2 {
			t.Errorf("serial %d", m.Serial)
		}
		wg.Wait()
		var unknown *domain.OutcomeUnknownError
		if !errors.As(late, &unknown) {
			t.Errorf("the old owner answered %v", late)
		}
		time.Sleep(30 * time.Second)
		a.link.Heal()
		retry := sendAnywhere(t, info, "alice", "2", "two", b, a)
		if retry.Serial != 3 {
			t.Errorf("serial %d", retry.Serial)
		}
	})
}
