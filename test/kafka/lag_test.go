//go:build kafka

package kafka_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/test/kafka"
)

// lags is what Kafka's own tool says of a group, by partition.
func lags(t *testing.T, c *kafka.Cluster, group string) (map[domain.ShardID]int64, error) {
	t.Helper()
	out, err := c.Tool(t.Context(), "kafka-consumer-groups.sh --bootstrap-server "+c.Addrs()[0]+" --describe --group "+group)
	if err != nil {
		return nil, err
	}
	all := map[domain.ShardID]int64{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line) // GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG …
		if len(f) < 6 || f[0] != group {
			continue
		}
		partition, err := strconv.Atoi(f[2])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		if all[domain.ShardID(partition)], err = strconv.ParseInt(f[5], 10, 64); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
	}
	return all, nil
}

// Kafka's own tool shows no lag for an instance that is open and quiet, and while it loads what is left to read.
func TestLag_IsTheTruth(t *testing.T) {
	c := start(t, kafka.Config{Properties: kafka.Quick()})
	p := prefix()
	messages, _ := topics(p)
	none := func() error {
		all, err := lags(t, c, p)
		if err != nil {
			return err
		}
		if len(all) != 4 {
			return fmt.Errorf("partitions %v", all)
		}
		for s, n := range all {
			if n != 0 {
				return fmt.Errorf("shard %d: %d", s, n)
			}
		}
		return nil
	}
	a := join(t, c, p, "a").ready()
	room := a.create(2, "kitchen")
	fill(t, room, 50, a)
	eventually(t, 60*time.Second, "no lag while it is open", none)
	a.end()

	// Another instance has everything to read, and nothing reaches it.
	b := newborn(t, c, p, "b", func(cfg *kafkasvc.Config) { cfg.CommitInterval = 200 * time.Millisecond })
	hold := b.link.Arm(kafkatest.Rule{Action: kafkatest.CutBefore, Key: kmsg.Fetch.Int16(), Topic: messages, Count: -1})
	b.run()
	eventually(t, 60*time.Second, "what is left to read", func() error {
		all, err := lags(t, c, p)
		if err != nil {
			return err
		}
		// At least the room, 50 messages and two takeovers.
		if all[room.Shard] < 53 || all[0] < 2 {
			return fmt.Errorf("lag %v", all)
		}
		return nil
	})
	if b.notReady() == nil {
		t.Error("ready without a record read")
	}
	hold.Stop()
	b.ready()
	eventually(t, 60*time.Second, "no lag once it is loaded", none)
}
