package directory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

const kafkaTopicName = "chathome.directory"

// kafkaTopic is the topic on a broker, as one instance reaches it.
type kafkaTopic struct{ *kafkalog.Cluster }

func onKafka(t *testing.T, c *kafkatest.Cluster, link *kafkatest.Link, name string) kafkaTopic {
	k := kafkalog.New(kafkalog.Config{Brokers: c.Addrs(), Dial: link.Dial, ClientID: name})
	t.Cleanup(k.Close)
	return kafkaTopic{k}
}

func (k kafkaTopic) Ensure(ctx context.Context) error {
	return k.EnsureTopic(ctx, kafkalog.TopicSpec{Name: kafkaTopicName, Partitions: 1, ReplicationFactor: 1})
}

func (k kafkaTopic) Append(ctx context.Context, values [][]byte) (domain.Offset, error) {
	records := make([]kafkalog.Record, len(values))
	for i := range values {
		records[i].Value = values[i]
	}
	return k.Cluster.Append(ctx, kafkaTopicName, 0, records)
}

func (k kafkaTopic) Bounds(ctx context.Context) (start, end domain.Offset, err error) {
	return k.Cluster.Bounds(ctx, kafkaTopicName, 0)
}

func (k kafkaTopic) Reader() Reader { return kafkaReader{k.Cluster.Reader(kafkaTopicName, 0)} }

type kafkaReader struct{ *kafkalog.Reader }

func (r kafkaReader) Read(ctx context.Context, from domain.Offset, visit func(domain.Offset, []byte) bool) error {
	err := r.Reader.Read(ctx, from, visit)
	if errors.Is(err, kafkalog.ErrOutOfRange) {
		return ErrOutOfRange
	}
	return err
}

// kafkaInstances starts three instances with links of their own.
func kafkaInstances(t *testing.T, c *kafkatest.Cluster) (all []*instance, links []*kafkatest.Link) {
	for n := range 3 {
		link := c.NewLink()
		name := fmt.Sprintf("i%d", n)
		all = append(all, run(t, onKafka(t, c, link, name), name, newMemStore()))
		links = append(links, link)
	}
	return all, links
}

func TestKafka_ThreeInstancesAgree(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := kafkatest.Start(t)
		all, _ := kafkaInstances(t, c)
		life := all[0].life()
		var wg sync.WaitGroup
		for n, i := range all {
			if got := i.life(); got != life {
				t.Fatalf("lives %v and %v", got, life)
			}
			wg.Go(func() {
				for r := range 50 {
					if err := i.Announce(bounded(t), roomInfo(r*(n+1)+1)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		late := run(t, onKafka(t, c, c.NewLink(), "late"), "late", newMemStore())
		if got := late.life(); got != life {
			t.Fatalf("lives %v and %v", got, life)
		}
		sameLists(t, append(all, late)...)
	})
}

// Created on one instance, known on every other at once.
func TestKafka_CreatedThenAtOnceLookedUpElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all, _ := kafkaInstances(t, kafkatest.Start(t))
		for _, i := range all {
			i.life()
		}
		for n := range 500 {
			all[n%3].announce(n)
			for _, i := range all {
				if info, err := i.ChatRoom(bounded(t), roomID(n)); err != nil || info.Name != roomInfo(n).Name {
					t.Fatalf("room %d: %v, %v", n, info, err)
				}
			}
		}
		sameLists(t, all...)
	})
}

// The topic is deleted and created again while everybody runs.
func TestKafka_RecreatedTopicIsANewLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := kafkatest.Start(t)
		all, _ := kafkaInstances(t, c)
		old := all[0].life()
		for n := range 10 {
			all[n%3].announce(n)
		}
		sameLists(t, all...)
		feeds := []domain.Feed{all[0].Feed(), all[1].Feed(), all[2].Feed()}
		cursor := all[0].Cursor(all[0].list()[9])
		if err := c.DeleteTopic(kafkaTopicName); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		now := all[0].life()
		if now == old {
			t.Fatal("the old life goes on")
		}
		for n, i := range all {
			if got := i.life(); got != now {
				t.Fatalf("lives %v and %v", got, now)
			}
			var gone *domain.CursorOutOfRangeError
			if err := feeds[n].Err(); !errors.As(err, &gone) {
				t.Fatalf("the old feed: %v", err)
			}
			if _, err := i.Resolve(bounded(t), cursor); !errors.As(err, &gone) {
				t.Fatalf("the old cursor: %v", err)
			}
		}
		all[2].announce(100)
		if got := sameLists(t, all...); len(got) != 1 {
			t.Fatalf("list %v", got)
		}
	})
}

func TestKafka_OutageDuringLookup(t *testing.T) {
	bubble(t, func(t *testing.T) {
		all, links := kafkaInstances(t, kafkatest.Start(t))
		for _, i := range all {
			i.life()
		}
		all[0].announce(1)
		for _, outage := range []struct {
			name  string
			begin func(*kafkatest.Link)
		}{{"cut", (*kafkatest.Link).Cut}, {"silence", (*kafkatest.Link).Silence}} {
			outage.begin(links[1])
			all[0].announce(2)
			began := time.Now()
			var over *domain.OverloadedError
			if _, err := all[1].ChatRoom(bounded(t), roomID(99)); !errors.As(err, &over) {
				t.Fatalf("%s: an unknown room: %v", outage.name, err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Fatalf("%s: the answer took %v", outage.name, took)
			}
			links[1].Heal()
			time.Sleep(10 * time.Second)
			var none *domain.UnknownChatRoomError
			if _, err := all[1].ChatRoom(bounded(t), roomID(99)); !errors.As(err, &none) {
				t.Fatalf("%s: after it: %v", outage.name, err)
			}
			if _, err := all[1].ChatRoom(bounded(t), roomID(2)); err != nil {
				t.Fatalf("%s: a room announced during it: %v", outage.name, err)
			}
		}
	})
}

// Whatever the way to the broker does, no acknowledged room is lost, listed twice, or unknown to anybody.
func TestKafka_FaultsOnTheWay(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				c := kafkatest.Start(t, kfake.Ports(9092, 9093, 9094))
				all, links := kafkaInstances(t, c)
				life := all[0].life()
				keys := []int16{kmsg.Produce.Int16(), kmsg.Fetch.Int16(), kmsg.ListOffsets.Int16()}
				actions := []kafkatest.Action{kafkatest.LoseAnswer, kafkatest.CutBefore, kafkatest.HoldRequest,
					kafkatest.HoldAnswer, kafkatest.LandLate, kafkatest.Duplicate, kafkatest.Swallow}
				var acked []int
				var armed []*kafkatest.Armed
				for n := range 60 {
					armed = append(armed, links[random.IntN(3)].Arm(kafkatest.Rule{
						Action: actions[random.IntN(len(actions))], Key: keys[random.IntN(len(keys))],
						Count: 1 + random.IntN(3), Delay: time.Duration(random.IntN(1500)) * time.Millisecond,
					}))
					if random.IntN(10) == 0 {
						if err := c.MoveTopicPartition(kafkaTopicName, 0, int32(random.IntN(3))); err != nil {
							t.Fatal(err)
						}
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(3000))*time.Millisecond)
					if all[n%3].Announce(ctx, roomInfo(n)) == nil {
						acked = append(acked, n)
					}
					cancel()
					for _, i := range all {
						var none *domain.UnknownChatRoomError
						if _, err := i.ChatRoom(t.Context(), roomID(n)); errors.As(err, &none) && slices.Contains(acked, n) {
							t.Fatalf("room %d was acknowledged and is unknown", n)
						}
					}
				}
				for _, a := range armed {
					a.Stop()
				}
				time.Sleep(time.Minute)
				rooms := sameLists(t, all...)
				for _, n := range acked {
					if !slices.ContainsFunc(rooms, func(r domain.ListedRoom) bool { return r.Info.ID == roomID(n) }) {
						t.Fatalf("room %d was acknowledged and is not listed", n)
					}
				}
				if all[0].Life() != life || all[0].Stats().Rebuilds != 0 || len(acked) < 10 {
					t.Fatalf("life %v, stats %+v, %d acknowledged", all[0].Life(), all[0].Stats(), len(acked))
				}
			})
		})
	}
}
