package kafkalog

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/listoffsets"

	"github.com/chathome/chathome/domain"
)

// Bounds asks the leader for the first offset that is still there and for the offset of the next record. Both are
// estimates: after a leader has moved, end may lie below records that are acknowledged, and start may lag.
func (c *Cluster) Bounds(ctx context.Context, topic string, partition int32) (start, end domain.Offset, err error) {
	if start, err = c.listOffset(ctx, topic, partition, kafka.FirstOffset); err != nil {
		return 0, 0, err
	}
	if end, err = c.listOffset(ctx, topic, partition, kafka.LastOffset); err != nil {
		return 0, 0, err
	}
	return start, end, nil
}

// listOffset asks one question: brokers refuse two on one partition in a request.
func (c *Cluster) listOffset(ctx context.Context, topic string, partition int32, which int64) (domain.Offset, error) {
	fail := func(err error) (domain.Offset, error) {
		return 0, fmt.Errorf("bounds of topic %s partition %d: %w", topic, partition, lacking(rightDescribe, topic, c.failures.note(err)))
	}
	addr, seq, err := c.leader(ctx, topic, partition)
	if err != nil {
		return fail(err)
	}
	m, err := c.ask(ctx, addr, &listoffsets.Request{
		ReplicaID: -1,
		Topics: []listoffsets.RequestTopic{{
			Topic:      topic,
			Partitions: []listoffsets.RequestPartition{{Partition: partition, CurrentLeaderEpoch: -1, Timestamp: which}},
		}},
	})
	if err != nil {
		c.leaderFailed(topic, seq)
		return fail(err)
	}
	res := m.(*listoffsets.Response)
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return fail(damaged("answer for another partition"))
	}
	p := res.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		c.leaderFailed(topic, seq)
		return fail(kafka.Error(p.ErrorCode))
	}
	return domain.Offset(p.Offset), nil
}
