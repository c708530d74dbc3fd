package kafkasvc

import (
	"context"
	"errors"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
)

// shardLog is a partition of the messages topic. It implements partition.
type shardLog struct {
	cluster *kafkalog.Cluster
	topic   string
	number  int32
}

func (l shardLog) Append(ctx context.Context, records []kafkalog.Record) (domain.Offset, error) {
	return l.cluster.Append(ctx, l.topic, l.number, records)
}

func (l shardLog) Bounds(ctx context.Context) (start, end domain.Offset, err error) {
	return l.cluster.Bounds(ctx, l.topic, l.number)
}

func (l shardLog) Reader() reader { return l.cluster.Reader(l.topic, l.number) }

// directoryLog is the directory topic. It implements directory.Topic.
type directoryLog struct{ home *Home }

func (l directoryLog) topic() string { return directoryTopic(l.home.cfg.TopicPrefix) }

func (l directoryLog) Ensure(ctx context.Context) error {
	return l.home.ensureTopic(ctx, l.topic(), 1)
}

func (l directoryLog) Append(ctx context.Context, values [][]byte) (domain.Offset, error) {
	records := make([]kafkalog.Record, len(values))
	for i, v := range values {
		records[i].Value = v
	}
	return l.home.cluster.Append(ctx, l.topic(), 0, records)
}

func (l directoryLog) Bounds(ctx context.Context) (start, end domain.Offset, err error) {
	return l.home.cluster.Bounds(ctx, l.topic(), 0)
}

func (l directoryLog) Reader() directory.Reader {
	return directoryReader{l.home.cluster.Reader(l.topic(), 0)}
}

type directoryReader struct{ *kafkalog.Reader }

func (r directoryReader) Read(ctx context.Context, from domain.Offset, visit func(domain.Offset, []byte) bool) error {
	err := r.Reader.Read(ctx, from, visit)
	if errors.Is(err, kafkalog.ErrOutOfRange) {
		return directory.ErrOutOfRange
	}
	return err
}
