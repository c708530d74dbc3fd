package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/createtopics"
)

// TopicSpec is a topic as chathome wants it.
type TopicSpec struct {
	Name              string
	Partitions        int
	ReplicationFactor int
	MinInSync         int // min.insync.replicas
	MaxMessageBytes   int // the largest batch that will be appended; 0: the broker's default
}

const (
	settingCleanup       = "cleanup.policy"
	settingRetentionMs   = "retention.ms"
	settingRetentionSize = "retention.bytes"
	settingMinInSync     = "min.insync.replicas"
	settingUnclean       = "unclean.leader.election.enable"
	settingTimestamp     = "message.timestamp.type"
	settingMaxBytes      = "max.message.bytes"
)

func (s *TopicSpec) settings() []createtopics.RequestConfig {
	all := []createtopics.RequestConfig{
		{Name: settingCleanup, Value: "delete"},
		{Name: settingRetentionMs, Value: "-1"},
		{Name: settingRetentionSize, Value: "-1"},
		{Name: settingTimestamp, Value: "LogAppendTime"},
		{Name: settingMinInSync, Value: strconv.Itoa(max(1, s.MinInSync))},
		{Name: settingUnclean, Value: "false"},
	}
	if s.MaxMessageBytes > 0 {
		all = append(all, createtopics.RequestConfig{Name: settingMaxBytes, Value: strconv.Itoa(s.MaxMessageBytes)})
	}
	return all
}

// EnsureTopic creates a topic that is not there and waits, a few seconds at most, until each of its partitions has a
// leader that answers. A topic that is there is left as it is: Check says what is wrong with it. It may be repeated
// after any error.
func (c *Cluster) EnsureTopic(ctx context.Context, spec TopicSpec) error {
	const (
		between = 50 * time.Millisecond
		tries   = 100
	)
	if err := c.createTopic(ctx, spec); err != nil {
		return fmt.Errorf("create topic %s: %w", spec.Name, err)
	}
	for try := 1; ; try++ {
		err := c.usable(ctx, spec.Name)
		if err == nil {
			return nil
		}
		// A new topic becomes known to one broker after the other.
		young := errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, kafka.LeaderNotAvailable) || errors.Is(err, kafka.NotLeaderForPartition)
		if !young || try == tries || pause(ctx, between) != nil {
			return fmt.Errorf("wait for topic %s: %w", spec.Name, err)
		}
	}
}

func (c *Cluster) createTopic(ctx context.Context, spec TopicSpec) error {
	if n, err := c.PartitionCount(ctx, spec.Name); err == nil && n > 0 {
		return nil // ask for the right to create topics only where it is needed
	} else if err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) && !errors.Is(err, kafka.LeaderNotAvailable) {
		return err
	}
	settings := spec.settings()
	for {
		code, message, err := c.sendCreate(ctx, spec, settings)
		switch {
		case err != nil:
			return err
		case code == 0, code == kafka.TopicAlreadyExists:
			return nil
		case code == kafka.InvalidConfiguration && drop(&settings, settingUnclean):
			continue // a broker without unclean elections does not know the setting
		case message != "":
			return lacking(rightCreate, spec.Name, fmt.Errorf("%w: %s", code, message))
		}
		return lacking(rightCreate, spec.Name, code)
	}
}

func drop(settings *[]createtopics.RequestConfig, name string) bool {
	for i, s := range *settings {
		if s.Name == name {
			*settings = append((*settings)[:i:i], (*settings)[i+1:]...)
			return true
		}
	}
	return false
}

func (c *Cluster) sendCreate(ctx context.Context, spec TopicSpec, settings []createtopics.RequestConfig) (kafka.Error, string, error) {
	brokers, controller, err := c.liveBrokers(ctx)
	if err != nil {
		return 0, "", err
	}
	addr, ok := brokers[controller]
	if !ok {
		return 0, "", fmt.Errorf("the controller is unknown: %w", kafka.NotController)
	}
	m, err := c.ask(ctx, addr, &createtopics.Request{
		Topics: []createtopics.RequestTopic{{
			Name:              spec.Name,
			NumPartitions:     int32(spec.Partitions),
			ReplicationFactor: int16(spec.ReplicationFactor),
			Configs:           settings,
		}},
		TimeoutMs: int32(c.cfg.RPCTimeout.Milliseconds()),
	})
	if err != nil {
		return 0, "", err
	}
	res := m.(*createtopics.Response)
	if len(res.Topics) != 1 {
		return 0, "", damaged("%d topics in the answer", len(res.Topics))
	}
	return kafka.Error(res.Topics[0].ErrorCode), res.Topics[0].ErrorMessage, nil
}

// usable asks each partition's leader a question that only a leader answers.
func (c *Cluster) usable(ctx context.Context, topic string) error {
	n, err := c.PartitionCount(ctx, topic)
	if err != nil {
		return err
	}
	for p := range n {
		if _, err := c.listOffset(ctx, topic, int32(p), kafka.LastOffset); err != nil {
			return err
		}
	}
	return nil
}

// PartitionCount asks the cluster how many partitions a topic has now. A topic that is not there (or not there
// yet, or not visible without permission) is kafka.UnknownTopicOrPartition.
func (c *Cluster) PartitionCount(ctx context.Context, topic string) (int, error) {
	t, err := c.freshTopic(ctx, topic)
	if err != nil {
		return 0, err
	}
	return len(t.partitions), nil
}

func (c *Cluster) freshTopic(ctx context.Context, topic string) (*topicRoute, error) {
	c.routes.mu.Lock()
	asked := c.routes.asked
	c.routes.mu.Unlock()
	c.leaderFailed(topic, asked)
	t, err := c.topicRoute(ctx, topic)
	if err != nil {
		return nil, err
	}
	// Without a leader for one of them, partitions are listed all the same. Where none is, the broker does not know
	// the topic yet: that says nothing of how many there are.
	if t.err != 0 && (t.err != kafka.LeaderNotAvailable || len(t.partitions) == 0) {
		return nil, fmt.Errorf("topic %s: %w", topic, t.err)
	}
	return t, nil
}

// BrokerCount asks the cluster how many brokers it has now.
func (c *Cluster) BrokerCount(ctx context.Context) (int, error) {
	brokers, _, err := c.liveBrokers(ctx)
	return len(brokers), err
}
