package kafkalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// reassignment is the command that gives each partition of a topic as many replicas as are wanted. Those that are there
// stay, in their order, so that no leader moves; what is added goes round the brokers.
func (c *Cluster) reassignment(addr string, want *TopicSpec, t *topicRoute) string {
	c.routes.mu.Lock()
	brokers := slices.Sorted(maps.Keys(c.routes.brokers))
	c.routes.mu.Unlock()
	if missing := want.ReplicationFactor - len(brokers); missing > 0 {
		return fmt.Sprintf("start %d more brokers, and check again", missing)
	}
	type partition struct {
		Topic     string  `json:"topic"`
		Partition int32   `json:"partition"`
		Replicas  []int32 `json:"replicas"`
	}
	plan := struct {
		Version    int         `json:"version"`
		Partitions []partition `json:"partitions"`
	}{Version: 1}
	for _, p := range slices.Sorted(maps.Keys(t.partitions)) {
		replicas := slices.Clone(t.partitions[p].replicas)
		for i := 0; len(replicas) < want.ReplicationFactor && i < len(brokers); i++ {
			if b := brokers[(int(p)+i)%len(brokers)]; !slices.Contains(replicas, b) {
				replicas = append(replicas, b)
			}
		}
		plan.Partitions = append(plan.Partitions, partition{want.Name, p, replicas})
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return err.Error() // numbers and a name: it does not happen
	}
	file := want.Name + ".json"
	return fmt.Sprintf("echo '%s' > %s; kafka-reassign-partitions.sh --bootstrap-server %s --reassignment-json-file %s --execute", text, file, addr, file)
}
