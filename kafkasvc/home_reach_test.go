package kafkasvc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// A room is created on one instance and used at once on all: by the list everybody knows it, the gate lets those in who
// come to its owner and sends the others there. Nobody is ever told that there is no such room.
func TestHome_CreatedThenAtOnceUsedEverywhere(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		homes := []*testHome{join(t, c, "a"), join(t, c, "b"), join(t, c, "d")}
		eventually(t, "all shards owned", func() error {
			n := 0
			for _, h := range homes {
				n += len(h.ready().owns())
			}
			if n != 4 {
				return fmt.Errorf("%d shards", n)
			}
			return nil
		})
		for _, h := range homes { // what others write to the directory is heard of late
			h.link.Arm(kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: kmsg.Fetch.Int16(), Topic: directoryTopic("chathome"), Count: -1, Delay: 50 * time.Millisecond})
		}
		for n := range 500 {
			info, _, err := homes[n%3].CreateChatRoom(t.Context(), homes[n%3].DrawChatRoomID(), fmt.Sprint("room ", n))
			if err != nil {
				t.Fatalf("room %d: %v", n, err)
			}
			owners := 0
			for i, h := range homes {
				if got, err := h.Directory().ChatRoom(t.Context(), info.ID); err != nil || got != info {
					t.Fatalf("room %d at instance %d: %+v, %v", n, i, got, err)
				}
				room, err := h.ChatRoom(t.Context(), info.Shard, info.ID)
				var no *domain.ShardNotOwnedError
				switch {
				case errors.As(err, &no):
					if no.Owner == nil {
						t.Fatalf("room %d at instance %d: not owned, and no word of who does", n, i)
					}
				case err != nil:
					t.Fatalf("room %d at instance %d: %v", n, i, err)
				default:
					owners++
					feed := room.Feed()
					m, _, err := room.Send(t.Context(), domain.Draft{User: "alice", ClientID: "1", Text: "hi"})
					if err != nil || m.Serial != 1 || feed.Tip() != 1 {
						t.Fatalf("room %d at its owner: %+v, %v, tip %d", n, m, err, feed.Tip())
					}
				}
			}
			if owners != 1 {
				t.Fatalf("room %d: %d owners", n, owners)
			}
		}
	})
}

// What is too large is refused with the limit and the measure before Kafka is asked, and harms no neighbour that is sent
// in the same moment.
func TestHome_TooLargeHarmsNoNeighbour(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		refused := func(id string, size int) {
			_, _, err := send(a, info, "alice", id, strings.Repeat("x", size))
			var in *domain.InvalidInputError
			if !errors.As(err, &in) || in.Fields[0].Limit != domain.MaxTextBytes || in.Fields[0].Actual != size {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
		before := c.Requests(kmsg.Produce.Int16(), messages)
		for _, size := range []int{domain.MaxTextBytes + 1, 64 << 10, 900 << 10, 1_000_000, 1<<20 + 1, 5 << 20} {
			refused("large", size)
		}
		if n := c.Requests(kmsg.Produce.Int16(), messages); n != before {
			t.Errorf("Kafka was asked %d times", n-before)
		}
		hold := a.link.Arm(kafkatest.Rule{Action: kafkatest.HoldRequest, Key: kmsg.Produce.Int16(), Topic: messages, Delay: 300 * time.Millisecond})
		var wg sync.WaitGroup
		for i := range 21 {
			wg.Go(func() {
				if i == 10 {
					refused("large", 1<<20)
				} else if _, _, err := send(a, info, "alice", fmt.Sprint(i), strings.Repeat("x", domain.MaxTextBytes)); err != nil {
					t.Errorf("neighbour %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		if n := len(a.history(info)); n != 20 || hold.Hits() == 0 {
			t.Errorf("%d messages, held %d", n, hold.Hits())
		}
		if counting, void := stored(t, c, "large"); counting+void != 0 {
			t.Error("the log holds what was refused")
		}
	})
}

// The message is stored, and the answer is lost on its way to the client: five retries get the same message, there is one
// record, and who follows the room hears of it once.
func TestHome_AnswerLostOnTheWayBack(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		ctx, cancel := context.WithCancel(t.Context())
		f := &follower{}
		var following sync.WaitGroup
		following.Go(func() { f.run(ctx, info, func() []*testHome { return []*testHome{a} }) })
		a.link.Arm(kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: kmsg.Produce.Int16(), Topic: messages, Delay: 300 * time.Millisecond})
		room, err := a.ChatRoom(ctx, info.Shard, info.ID)
		if err != nil {
			t.Fatal(err)
		}
		draft := domain.Draft{User: "alice", ClientID: "lucky", Text: "seven"}
		impatient, give := context.WithTimeout(ctx, 100*time.Millisecond)
		defer give()
		var unknown *domain.OutcomeUnknownError
		if _, _, err := room.Send(impatient, draft); !errors.As(err, &unknown) {
			t.Errorf("who gave up was told %v", err)
		}
		var first domain.Message
		for i := range 5 {
			m, dup, err := room.Send(ctx, draft)
			if i == 0 {
				first = m
			}
			if err != nil || !dup || m != first || m.Serial != 1 {
				t.Errorf("retry %d: %+v %t %v", i, m, dup, err)
			}
			time.Sleep(time.Second)
		}
		if got := f.messages(); !slices.Equal(got, []domain.Message{first}) {
			t.Errorf("who follows heard %+v", got)
		}
		if n, void := stored(t, c, "lucky"); n != 1 || void != 0 {
			t.Errorf("%d records count, %d are void", n, void)
		}
		cancel()
		following.Wait()
	})
}

// Instances keep their clocks in different zones, one of which changes to winter time meanwhile: a message has one time,
// in its answer, live, and from every later owner.
func TestHome_ZonesOfOwnersDiffer(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		fold := time.Date(2027, 11, 7, 5, 59, 58, 0, time.UTC) // two seconds before New York's clocks go back
		east := time.FixedZone("east", 5*3600+45*60)
		summer, winter := time.FixedZone("summer", -4*3600), time.FixedZone("winter", -5*3600)
		began := time.Now()
		now := func() time.Time { return fold.Add(time.Since(began)) }
		zones := map[string]func() time.Time{
			"utc":  now,
			"east": func() time.Time { return now().In(east) },
			"west": func() time.Time {
				if t := now(); t.Before(fold.Add(2 * time.Second)) {
					return t.In(summer)
				}
				return now().In(winter)
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running *testHome
		var mu sync.Mutex
		f := &follower{}
		var following sync.WaitGroup
		var info domain.ChatRoomInfo
		var want []domain.Message
		for i, name := range []string{"west", "east", "utc"} {
			h := join(t, c, name, func(cfg *Config) { cfg.Now = zones[name] }).ready()
			mu.Lock()
			running = h
			mu.Unlock()
			if i == 0 {
				info = h.room("kitchen")
				following.Go(func() {
					f.run(ctx, info, func() []*testHome {
						mu.Lock()
						defer mu.Unlock()
						return []*testHome{running}
					})
				})
			}
			for n := range 20 { // four seconds
				m := sendAnywhere(t, info, name, fmt.Sprint(n), "hi", h)
				if at := domain.MillisOf(now()); m.SentAt > at || m.SentAt < at-1000 {
					t.Errorf("%s: sent at %d, it is %d", name, m.SentAt, at)
				}
				want = append(want, m)
				time.Sleep(200 * time.Millisecond)
			}
			if got := h.history(info); !slices.Equal(got, want) {
				t.Errorf("%s: the history differs from the answers", name)
			}
			if i < 2 {
				h.end()
			}
		}
		if got := f.messages(); !slices.Equal(got, want) {
			t.Errorf("live: %d messages, or other times than in the answers", len(got))
		}
		cancel()
		following.Wait()
	})
}
