package kafkalog_test

import (
	"errors"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

const group = "g"

// join makes a member with kafka-go, the library that membership uses.
func join(t *testing.T, k *kafkatest.Cluster) (*kafka.ConsumerGroup, *kafka.Generation) {
	t.Helper()
	g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: k.Addrs(), Topics: []string{topic},
		Dialer:            &kafka.Dialer{DialFunc: k.Dial, Timeout: 5 * time.Second},
		HeartbeatInterval: 200 * time.Millisecond, SessionTimeout: 6 * time.Second, RebalanceTimeout: 2 * time.Second,
		Timeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	gen, err := g.Next(within(t, time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return g, gen
}

func TestHeartbeat(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t, kfake.Ports(9092, 9093, 9094))
		g, gen := join(t, k)
		defer g.Close()
		beat := func(generation int32, member string) error {
			return c.Heartbeat(within(t, time.Second), group, generation, member)
		}
		if err := beat(gen.ID, gen.MemberID); err != nil {
			t.Errorf("the member: %v", err)
		}
		if err := beat(gen.ID+1, gen.MemberID); !errors.Is(err, kafkalog.ErrIllegalGeneration) || !kafkalog.GenerationOver(err) {
			t.Errorf("wrong generation: %v", err)
		}
		if err := beat(gen.ID, "stranger"); !errors.Is(err, kafkalog.ErrUnknownMember) || !kafkalog.GenerationOver(err) {
			t.Errorf("unknown member: %v", err)
		}
		k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: group, Err: kerr.RebalanceInProgress})
		if err := beat(gen.ID, gen.MemberID); !errors.Is(err, kafkalog.ErrRebalanceInProgress) || !kafkalog.GenerationOver(err) {
			t.Errorf("rebalance: %v", err)
		}
		// The coordinator moves: transient, and the next beat finds it.
		k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Group: group, Err: kerr.NotCoordinator})
		finds := k.Requests(kmsg.FindCoordinator.Int16(), "")
		if err := beat(gen.ID, gen.MemberID); err == nil || kafkalog.GenerationOver(err) {
			t.Errorf("moved coordinator: %v", err)
		}
		if err := beat(gen.ID, gen.MemberID); err != nil {
			t.Errorf("after the move: %v", err)
		}
		if n := k.Requests(kmsg.FindCoordinator.Int16(), ""); n != finds+1 {
			t.Errorf("%d look-ups of the coordinator after it moved", n-finds)
		}
	})
}

func TestHeartbeat_IsTransientOnABrokenLinkAndBoundedBySilence(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		g, gen := join(t, k)
		defer g.Close()
		other := k.NewLink()
		cc := kafkalog.New(kafkalog.Config{Brokers: k.Addrs(), Dial: other.Dial})
		defer cc.Close()
		if err := cc.Heartbeat(t.Context(), group, gen.ID, gen.MemberID); err != nil {
			t.Fatal(err)
		}
		other.CloseConns() // a resting connection that died is replaced without a word
		if err := cc.Heartbeat(t.Context(), group, gen.ID, gen.MemberID); err != nil {
			t.Error(err)
		}
		other.Silence()
		began := time.Now()
		err := cc.Heartbeat(t.Context(), group, gen.ID, gen.MemberID)
		if took := time.Since(began); err == nil || kafkalog.GenerationOver(err) || took > time.Second {
			t.Errorf("silence: %v after %v", err, took)
		}
		other.Heal()
		if err := cc.Heartbeat(t.Context(), group, gen.ID, gen.MemberID); err != nil {
			t.Errorf("healed: %v", err)
		}
		_ = c
	})
}

func TestLeaveGroup(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		g, gen := join(t, k)
		defer g.Close()
		if err := c.LeaveGroup(within(t, time.Second), group, gen.MemberID); err != nil {
			t.Error(err)
		}
		if err := c.Heartbeat(within(t, time.Second), group, gen.ID, gen.MemberID); !errors.Is(err, kafkalog.ErrUnknownMember) {
			t.Errorf("heartbeat afterwards: %v", err)
		}
		if err := c.LeaveGroup(within(t, time.Second), group, gen.MemberID); err != nil {
			t.Errorf("leaving twice: %v", err)
		}
	})
}

func TestCommitOffsets(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		g, gen := join(t, k)
		defer g.Close()
		at := map[domain.ShardID]domain.Offset{0: 17, 1: 4}
		if err := c.CommitOffsets(within(t, time.Second), group, gen.ID, gen.MemberID, topic, at); err != nil {
			t.Fatal(err)
		}
		err := c.CommitOffsets(within(t, time.Second), group, gen.ID+7, gen.MemberID, topic, map[domain.ShardID]domain.Offset{0: 99})
		if !errors.Is(err, kafkalog.ErrIllegalGeneration) {
			t.Errorf("wrong generation: %v", err)
		}
		info := k.GroupInfo(group)
		for p, want := range at {
			if got := info.Commits[topic][int32(p)].Offset; got != int64(want) {
				t.Errorf("partition %d: committed %d, want %d", p, got, want)
			}
		}
	})
}
