package kafkasvc

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"

	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
)

// Topics are the topics of a home, for tools that work on them without being an instance: see package transfer.
type Topics struct{ home *Home }

// OpenTopics does not dial. Close it in the end.
func OpenTopics(cfg Config) *Topics {
	cfg.setDefaults()
	return &Topics{&Home{cfg: cfg, lg: cfg.Log, cluster: newCluster(&cfg)}}
}

// Close ends the connections.
func (t *Topics) Close() { t.home.cluster.Close() }

// Directory is the directory topic.
func (t *Topics) Directory() directory.Topic { return directoryLog{t.home} }

// Messages are the cluster and the name of the messages topic, whose partitions are the shards.
func (t *Topics) Messages() (cluster *kafkalog.Cluster, topic string) {
	return t.home.cluster, messagesTopic(t.home.cfg.TopicPrefix)
}

// Exist says whether the directory topic is there.
func (t *Topics) Exist(ctx context.Context) (bool, error) {
	_, err := t.home.cluster.PartitionCount(ctx, directoryTopic(t.home.cfg.TopicPrefix))
	if errors.Is(err, kafka.UnknownTopicOrPartition) {
		return false, nil
	}
	return err == nil, err
}

// Prepare makes the messages topic where it is missing and holds both topics against what a home needs, as an
// instance does when it starts. *RefusedError names what is wrong.
func (t *Topics) Prepare(ctx context.Context, shards int) error { return t.home.prepare(ctx, shards) }

// Reason says in words for an operator why the brokers cannot be reached; nil where one answers.
func (t *Topics) Reason(ctx context.Context) error { return t.home.cluster.Reason(ctx) }
