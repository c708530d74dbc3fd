// Package chatlog reads the raw log of a run with franz-go, which shares no code with the product's reader.
package chatlog

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chathome/chathome/test/check"
)

// Messages is the topic of messages with the default prefix.
const Messages = "chathome.messages"

// Read reads a topic from its start to the end that it has now, all partitions, in any order of partitions.
func Read(ctx context.Context, brokers []string, topic string) ([]check.Record, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.KeepControlRecords())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", topic, err)
	}
	defer client.Close()
	adm := kadm.NewClient(client)
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("find the start of %s: %w", topic, err)
	}
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("find the end of %s: %w", topic, err)
	}
	from := map[int32]kgo.Offset{}
	left := map[int32]int64{} // partitions that are not read to their end
	ends.Each(func(end kadm.ListedOffset) {
		start, _ := starts.Lookup(topic, end.Partition)
		if end.Offset > start.Offset {
			from[end.Partition] = kgo.NewOffset().At(start.Offset)
			left[end.Partition] = end.Offset
		}
	})
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: from})
	var log []check.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read %s: %w", topic, err)
		}
		for _, e := range fetches.Errors() {
			return nil, fmt.Errorf("read partition %d of %s: %w", e.Partition, topic, e.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			log = append(log, check.Record{Shard: r.Partition, Offset: r.Offset, Value: r.Value})
			if end, ok := left[r.Partition]; ok && r.Offset >= end-1 {
				delete(left, r.Partition)
			}
		})
	}
	return log, nil
}
