package metrics_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/kafkasvc/record"
)

func (s *scraped) room(name string) domain.ChatRoomInfo {
	s.t.Helper()
	r, _, err := s.CreateChatRoom(s.t.Context(), s.DrawChatRoomID(), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func alarms(kind string) string { return fmt.Sprintf("chathome_alarms_total{kind=%q}", kind) }

// What rarely happens moves its metrics too.
func TestMetrics_MoveWithWhatRarelyHappens(t *testing.T) {
	for _, tc := range []struct {
		name  string
		cause func(t *testing.T, c *kafkatest.Cluster, a *scraped)
		moves []string
	}{
		{"a full queue", fullQueue, []string{`chathome_sends_total{outcome="overloaded"}`, `chathome_sends_total{outcome="stored"}`}},
		{"a room with an id that is taken", func(_ *testing.T, _ *kafkatest.Cluster, a *scraped) {
			r := a.room("kitchen")
			_, _, _ = a.CreateChatRoom(a.t.Context(), r.ID, "kitchen")
			_, _, _ = a.CreateChatRoom(a.t.Context(), r.ID, "hall")
		}, []string{`chathome_room_creations_total{outcome="stored"}`, `chathome_room_creations_total{outcome="duplicate"}`,
			`chathome_room_creations_total{outcome="mutation"}`}},
		{"a sender that gives up in time", givesUp, []string{`chathome_sends_total{outcome="not_stored"}`}},
		{"a broker that refuses to store", func(_ *testing.T, c *kafkatest.Cluster, a *scraped) {
			r := a.room("kitchen")
			f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: messages, Err: kerr.TopicAuthorizationFailed, Count: -1})
			_ = a.send(r, "1", "refused")
			time.Sleep(5 * time.Second)
			f.Remove()
		}, []string{`chathome_sends_total{outcome="not_stored"}`, alarms("refused"), `chathome_kafka_errors_total{code="topic_authorization_failed"}`}},
		{"both topics deleted", func(t *testing.T, c *kafkatest.Cluster, a *scraped) {
			drop(t, c, messages, "chathome.directory")
		}, []string{alarms("another_life"), "chathome_generations_total"}},
		{"the messages topic made anew", madeAnew, []string{alarms("truncated"), alarms("shard_went_back")}},
		{"a record that does not fit", doesNotFit, []string{alarms("misfit"), alarms("truncated"), `chathome_log_records_total{what="ahead"}`}},
		{"two instances with one id", func(t *testing.T, c *kafkatest.Cluster, a *scraped) {
			start(t, c, "a")
		}, []string{alarms("duplicate_instance")}},
		{"a foreign member", foreignMember, []string{alarms("foreign_member")}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				c := kafkatest.Start(t)
				a := start(t, c, "a").ready()
				before := a.samples()
				tc.cause(t, c, a)
				a.moved(tc.name, before, tc.moves...)
			})
		})
	}
}

func fullQueue(_ *testing.T, _ *kafkatest.Cluster, a *scraped) {
	r := a.room("kitchen")
	a.link.Arm(kafkatest.Rule{Action: kafkatest.HoldRequest, Key: kmsg.Produce.Int16(), Topic: messages, Delay: 800 * time.Millisecond})
	text := strings.Repeat("x", domain.MaxTextBytes)
	var all sync.WaitGroup
	for i := range 2500 { // 20 MiB
		all.Go(func() { _ = a.send(r, fmt.Sprint(i), text) })
	}
	all.Wait()
}

// givesUp: its message waits behind a batch whose answer is late, and is taken out again.
func givesUp(t *testing.T, _ *kafkatest.Cluster, a *scraped) {
	r := a.room("kitchen")
	a.link.Arm(kafkatest.Rule{Action: kafkatest.HoldRequest, Key: kmsg.Produce.Int16(), Topic: messages, Delay: 800 * time.Millisecond})
	var first sync.WaitGroup
	first.Go(func() { _ = a.send(r, "1", "slow") })
	synctest.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	room, err := a.ChatRoom(ctx, r.Shard, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := room.Send(ctx, domain.Draft{User: "alice", ClientID: "2", Text: "never mind"}); err == nil {
		t.Error("it was stored")
	}
	first.Wait()
}

func drop(t *testing.T, c *kafkatest.Cluster, topics ...string) {
	t.Helper()
	for _, topic := range topics {
		if err := c.DeleteTopic(topic); err != nil {
			t.Fatal(err)
		}
	}
}

// madeAnew: an owner writes to a log that is shorter than the one it knows.
func madeAnew(t *testing.T, c *kafkatest.Cluster, a *scraped) {
	r := a.room("kitchen")
	for i := range 20 {
		if err := a.send(r, fmt.Sprint(i), "old"); err != nil {
			t.Fatal(err)
		}
	}
	b := start(t, c, "b").ready() // takeovers, so that the known versions are behind the new log's start
	b.end()
	a.ready()
	cl := stranger(t, c)
	defer cl.Close()
	drop(t, c, messages)
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 4, 1, nil, messages); err != nil {
		t.Fatal(err)
	}
	_ = a.send(r, "new", "new")
}

// doesNotFit: a record lands where it names, as none does that an owner wrote, and skips serials.
func doesNotFit(t *testing.T, c *kafkatest.Cluster, a *scraped) {
	r := a.room("kitchen")
	cl := stranger(t, c)
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(t.Context(), messages)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(messages, int32(r.Shard))
	m := domain.Message{Room: r.ID, Serial: 99, User: "mallory", ClientID: "1", Text: "from nowhere", SentAt: 1}
	put(t, cl, r.Shard, record.AppendMessage(nil, domain.Offset(end.Offset), &m))
	_ = a.send(r, "1", "behind it") // so that the owner finds it, and loads the shard anew
}

// strangers are members with chathome's protocol and no idea of it.
type strangers struct{}

func (strangers) ProtocolName() string      { return "chathome-1" }
func (strangers) UserData() ([]byte, error) { return []byte("who am I?"), nil }
func (strangers) AssignGroups([]kafka.GroupMember, []kafka.Partition) kafka.GroupMemberAssignments {
	return nil
}

func foreignMember(t *testing.T, c *kafkatest.Cluster, a *scraped) {
	g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: "chathome", Brokers: c.Addrs(), Topics: []string{messages}, GroupBalancers: []kafka.GroupBalancer{strangers{}},
		Dialer: &kafka.Dialer{DialFunc: c.Dial}, HeartbeatInterval: 200 * time.Millisecond, SessionTimeout: 6 * time.Second, RebalanceTimeout: 4 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := g.Next(ctx); err != nil {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	a.ready()
}

// The disk is full: the store fails, and the directory's view in it goes too.
func TestMetrics_OfAFullDisk(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if full.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
				return syscall.ENOSPC
			}
			return nil
		}))
		a := start(t, kafkatest.Start(t), "a", func(cfg *kafkasvc.Config) { cfg.DataDir, cfg.StoreFS = "data", fs }).ready()
		r := a.room("kitchen")
		before := a.samples()
		full.Store(true)
		text := strings.Repeat("x", domain.MaxTextBytes)
		for i := range 4000 { // enough for the store to need the disk
			if a.send(r, fmt.Sprint(i), text) != nil {
				break
			}
		}
		a.moved("a full disk", before, alarms("store"))
		full.Store(false)
		a.moved("a full disk", before, "chathome_directory_rebuilds_total")
		a.ready()
	})
}
