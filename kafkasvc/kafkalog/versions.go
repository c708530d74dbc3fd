package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go/protocol"
)

// needed are the requests that chathome sends, with the versions that it can send. Those without a comment go out
// from this package, the others from kafka-go's consumer group.
var needed = map[protocol.ApiKey]versionRange{
	protocol.Produce:         {produceMin, produceMax},
	protocol.Fetch:           {fetchMax, fetchMax}, // of Kafka 2.1
	protocol.ListOffsets:     {1, 5},
	protocol.Metadata:        {4, 8},
	protocol.OffsetCommit:    {2, 7},
	protocol.FindCoordinator: {0, 2},
	protocol.Heartbeat:       {0, 3},
	protocol.LeaveGroup:      {0, 2},
	protocol.CreateTopics:    {0, 5},
	protocol.DescribeConfigs: {0, 3},
	protocol.JoinGroup:       {1, 2}, // consumer group
	protocol.SyncGroup:       {0, 0}, // consumer group
	protocol.OffsetFetch:     {1, 1}, // consumer group
}

// Kafka 2.1 is the oldest because of KIP-320: before, a replica that did not know yet that it was no leader any more
// could lose what had been acknowledged. The newer version of Fetch came with it.

// CheckVersions is the first part of Check, for a start: whether the first broker that answers understands chathome
// at all. An error says that none answered.
func (c *Cluster) CheckVersions(ctx context.Context) ([]Finding, error) {
	var errs []error
	for _, addr := range c.routes.contacts() {
		k, err := c.connTo(ctx, addr)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		found := checkVersions(addr, k.versions)
		c.pool.put(k)
		return found, nil
	}
	return nil, errors.Join(errs...)
}

func checkVersions(broker string, have map[protocol.ApiKey]versionRange) []Finding {
	var lacks []string
	for _, key := range slices.Sorted(maps.Keys(needed)) {
		n := needed[key]
		if h, ok := have[key]; !ok || h.max < n.min || h.min > n.max {
			lacks = append(lacks, fmt.Sprintf("%s %d to %d", key, n.min, n.max))
		}
	}
	if lacks == nil {
		return nil
	}
	return []Finding{{
		Severity: Refuse, Broker: broker, Setting: "supported requests", Value: "without " + strings.Join(lacks, ", "),
		Want: "all that chathome sends", Why: "the broker is too old or too new", Fix: "run Apache Kafka 2.1 or later",
	}}
}
