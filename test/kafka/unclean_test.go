//go:build kafka

package kafka_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/test/kafka"
)

// makeTopic makes a topic whose partitions all have their replicas on the given nodes, the first of them preferred.
func makeTopic(t *testing.T, c *kafka.Cluster, name string, partitions int, nodes []int32, settings map[string]string) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
	for p := range int32(partitions) {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = p, nodes
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, a)
	}
	for k, v := range settings {
		s := kmsg.NewCreateTopicsRequestTopicConfig()
		s.Name, s.Value = k, &v
		topic.Configs = append(topic.Configs, s)
	}
	req.Topics = append(req.Topics, topic)
	res, err := req.RequestWith(within(t, 20*time.Second), c.Client)
	if err != nil {
		t.Fatal(err)
	}
	if code := res.Topics[0].ErrorCode; code != 0 {
		t.Fatalf("create topic %s: code %d %v", name, code, res.Topics[0].ErrorMessage)
	}
}

// inSync waits until a partition's set of replicas in sync is the given one.
func inSync(t *testing.T, c *kafka.Cluster, topic string, p int32, want ...int32) {
	t.Helper()
	eventually(t, 60*time.Second, fmt.Sprintf("replicas in sync %v", want), func() error {
		list, err := c.Admin.ListTopics(within(t, 5*time.Second), topic)
		if err != nil {
			return err
		}
		have := list[topic].Partitions[p].ISR
		slices.Sort(have)
		if !slices.Equal(have, want) {
			return fmt.Errorf("%v", have)
		}
		return nil
	})
}

// An administrator let a replica that lags become leader: the log is cut behind what was acknowledged. The home
// notices, raises the alarm, keeps what is left, forgets what is not, and goes on; every reader agrees.
func TestUncleanElection(t *testing.T) {
	props := kafka.Quick()
	maps.Copy(props, kafka.Properties{"unclean.leader.election.enable": "true", "offsets.topic.num.partitions": "1"})
	c := start(t, kafka.Config{Nodes: 3, Properties: props})
	for _, day := range []struct {
		name                string
		takeAway, giveAgain func(*kafka.Node) error
	}{
		{"a replica that was down leads", (*kafka.Node).Kill, (*kafka.Node).Start},
		{"a replica that was paused leads", (*kafka.Node).Pause, (*kafka.Node).Resume},
	} {
		t.Run(day.name, func(t *testing.T) {
			p := prefix()
			messages, _ := topics(p)
			makeTopic(t, c, messages, 2, []int32{1, 2}, map[string]string{
				"min.insync.replicas": "1", "unclean.leader.election.enable": "true", "retention.ms": "-1", "message.timestamp.type": "LogAppendTime",
			})
			a := join(t, c, p, "a", func(cfg *kafkasvc.Config) { cfg.Shards = 2 }).ready()
			a.says("level=WARN", "Kafka could be set up better for this home", "unclean.leader.election.enable")
			room := a.create(0, "kitchen")
			kept := fill(t, room, 20, a)
			if err := day.takeAway(c.Node(2)); err != nil {
				t.Fatal(err)
			}
			inSync(t, c, messages, 0, 1)
			for i := range 10 {
				sends(t, room, "bob", fmt.Sprint(i), "lost", a)
			}
			lost := cursorAt(t, a, room, 25)
			if err := c.Node(1).Kill(); err != nil {
				t.Fatal(err)
			}
			if err := day.giveAgain(c.Node(2)); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			m := sends(t, room, "carol", "1", "after the cut", a) // whoever writes brings it to light
			t.Logf("a message is stored again after %v", time.Since(began).Round(10*time.Millisecond))
			if want := domain.Serial(len(kept) + 1); m.Serial != want {
				t.Errorf("serial %d, want %d", m.Serial, want)
			}
			if !a.alarmed("truncated") {
				t.Errorf("no alarm of a truncated log, only %v", a.alarms)
			}
			a.says("level=ERROR", "truncated")
			got := history(t, room, a)
			if !slices.Equal(got, append(slices.Clone(kept), m)) {
				t.Errorf("%d messages are left, want the %d that both replicas had, and the new one", len(got), len(kept))
			}
			r, err := a.ChatRoom(t.Context(), room.Shard, room.ID)
			if err != nil {
				t.Fatal(err)
			}
			if s, err := r.Resolve(t.Context(), lost); !is[*domain.CursorOutOfRangeError](err) {
				t.Errorf("a cursor behind a lost message leads to %d, %v", s, err)
			}
			// A client that repeats what it was told is stored gets it stored anew.
			if m := sends(t, room, "bob", "3", "lost", a); m.Serial != 22 {
				t.Errorf("a repeated message has serial %d, want 22", m.Serial)
			}
			if err := c.Node(1).Start(); err != nil { // the one that knew more gives in
				t.Fatal(err)
			}
			inSync(t, c, messages, 0, 1, 2)
			if m := sends(t, room, "carol", "2", "all are back", a); m.Serial != 23 {
				t.Errorf("serial %d, want 23", m.Serial)
			}
			a.ready()
			agree(t, a, room)
		})
	}
}
