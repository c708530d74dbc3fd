package kafkalog

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// routes is what is known of the cluster's layout. It is asked for when it is needed and again after a failure,
// never by the clock: an idle instance asks nothing, and a moved leader is found by the first request it refuses.
type routes struct {
	mu           sync.Mutex
	given        []string            // addresses to begin with
	seeds        []string            // addresses to ask, in this order; the ones that failed last
	failing      map[string][]string // those that did not answer when they were last asked, and how, as the log has it
	brokers      map[int32]string    // id to address
	topics       map[string]*topicRoute
	stale        map[string]uint64 // a topic's answer must be of a later request than this
	coordinators map[string]string // group to address
	asked        uint64            // number of the last request for metadata
	flight       *flight           // the one under way, shared by all who wait
}

type topicRoute struct {
	seq        uint64 // of the request that answered this
	err        kafka.Error
	partitions map[int32]partitionRoute
}

type partitionRoute struct {
	err      kafka.Error
	leader   int32
	replicas []int32
}

type flight struct {
	seq    uint64
	topics []string
	done   chan struct{}
	err    error
}

func (r *routes) init(seeds []string) {
	r.given, r.seeds = slices.Clone(seeds), slices.Clone(seeds)
	r.failing = make(map[string][]string)
	r.brokers = make(map[int32]string)
	r.topics = make(map[string]*topicRoute)
	r.stale = make(map[string]uint64)
	r.coordinators = make(map[string]string)
}

// leader names the broker that leads a partition. The sequence number goes to leaderFailed.
func (c *Cluster) leader(ctx context.Context, topic string, partition int32) (addr string, seq uint64, err error) {
	r := &c.routes
	r.mu.Lock()
	known := r.asked
	r.mu.Unlock()
	for {
		t, err := c.topicRoute(ctx, topic)
		if err != nil {
			return "", 0, err
		}
		addr, err := r.pick(t, topic, partition)
		if err == nil {
			return addr, t.seq, nil
		}
		c.leaderFailed(topic, t.seq)
		if t.seq > known {
			return "", 0, err // asked just now
		}
	}
}

// leaderFailed makes the next look-up of the topic ask the cluster again.
func (c *Cluster) leaderFailed(topic string, seq uint64) {
	c.routes.mu.Lock()
	defer c.routes.mu.Unlock()
	c.routes.stale[topic] = max(c.routes.stale[topic], seq)
}

func (r *routes) pick(t *topicRoute, topic string, partition int32) (string, error) {
	if t.err != 0 {
		return "", fmt.Errorf("topic %s: %w", topic, t.err)
	}
	p, ok := t.partitions[partition]
	switch {
	case !ok:
		return "", fmt.Errorf("topic %s has no partition %d: %w", topic, partition, kafka.UnknownTopicOrPartition)
	case p.leader < 0 || p.err == kafka.LeaderNotAvailable:
		return "", fmt.Errorf("topic %s partition %d: %w", topic, partition, kafka.LeaderNotAvailable)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	addr, ok := r.brokers[p.leader]
	if !ok {
		return "", fmt.Errorf("topic %s partition %d is led by unknown broker %d: %w", topic, partition, p.leader, kafka.BrokerNotAvailable)
	}
	return addr, nil
}

// topicRoute returns what is known of a topic, asking the cluster where that is nothing or stale.
func (c *Cluster) topicRoute(ctx context.Context, topic string) (*topicRoute, error) {
	r := &c.routes
	for {
		r.mu.Lock()
		if t := r.topics[topic]; t != nil && t.seq > r.stale[topic] {
			r.mu.Unlock()
			return t, nil
		}
		f := r.flight
		if f == nil {
			f = c.takeOff(topic)
		}
		r.mu.Unlock()
		if f == nil {
			return nil, ErrClosed
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, fmt.Errorf("ask for the leader of topic %s: %w", topic, context.Cause(ctx))
		}
		if f.err != nil && slices.Contains(f.topics, topic) {
			return nil, fmt.Errorf("ask for the leader of topic %s: %w", topic, f.err)
		}
	}
}

// takeOff starts a request for metadata of all topics in use and topic. r.mu is held. It returns nil after Close.
func (c *Cluster) takeOff(topic string) *flight {
	r := &c.routes
	r.asked++
	f := &flight{seq: r.asked, done: make(chan struct{}), topics: slices.Collect(maps.Keys(r.topics))}
	if !slices.Contains(f.topics, topic) {
		f.topics = append(f.topics, topic)
	}
	started := c.task(func() {
		f.err = c.fetchMetadata(c.ctx, f.topics, f.seq)
		r.mu.Lock()
		r.flight = nil
		r.mu.Unlock()
		close(f.done)
	})
	if !started {
		return nil
	}
	r.flight = f
	return f
}

// fetchMetadata asks for topics and keeps the answer.
func (c *Cluster) fetchMetadata(ctx context.Context, topics []string, seq uint64) error {
	m, err := c.askAny(ctx, func() protocol.Message { return &metadata.Request{TopicNames: topics} })
	if err == nil {
		c.routes.learn(m.(*metadata.Response), seq)
	}
	return err
}

func (r *routes) learn(m *metadata.Response, seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.brokers = brokerAddrs(m)
	for _, addr := range r.brokers {
		if !slices.Contains(r.seeds, addr) {
			r.seeds = append(r.seeds, addr)
		}
	}
	// Brokers that left, and addresses that they had, must not pile up.
	live := slices.Collect(maps.Values(r.brokers))
	gone := func(addr string) bool { return !slices.Contains(live, addr) && !slices.Contains(r.given, addr) }
	r.seeds = slices.DeleteFunc(r.seeds, gone)
	maps.DeleteFunc(r.failing, func(addr string, _ []string) bool { return gone(addr) })
	for _, t := range m.Topics {
		n := &topicRoute{seq: seq, err: kafka.Error(t.ErrorCode), partitions: make(map[int32]partitionRoute, len(t.Partitions))}
		for _, p := range t.Partitions {
			n.partitions[p.PartitionIndex] = partitionRoute{err: kafka.Error(p.ErrorCode), leader: p.LeaderID, replicas: p.ReplicaNodes}
		}
		r.topics[t.Name] = n
	}
}

func brokerAddrs(m *metadata.Response) map[int32]string {
	all := make(map[int32]string, len(m.Brokers))
	for _, b := range m.Brokers {
		all[b.NodeID] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
	}
	return all
}

// liveBrokers asks the cluster for its brokers.
func (c *Cluster) liveBrokers(ctx context.Context) (brokers map[int32]string, controller int32, err error) {
	m, err := c.askAny(ctx, func() protocol.Message { return &metadata.Request{TopicNames: []string{}} })
	if err != nil {
		return nil, 0, err
	}
	res := m.(*metadata.Response)
	return brokerAddrs(res), res.ControllerID, nil
}

// coordinator names the broker that coordinates a group.
func (c *Cluster) coordinator(ctx context.Context, group string) (string, error) {
	r := &c.routes
	r.mu.Lock()
	addr, ok := r.coordinators[group]
	r.mu.Unlock()
	if ok {
		return addr, nil
	}
	m, err := c.askAny(ctx, func() protocol.Message { return &findcoordinator.Request{Key: group} })
	if err == nil {
		if code := m.(*findcoordinator.Response).ErrorCode; code != 0 {
			err = kafka.Error(code)
		}
	}
	if err != nil {
		return "", fmt.Errorf("find the coordinator of group %s: %w", group, err)
	}
	res := m.(*findcoordinator.Response)
	addr = net.JoinHostPort(res.Host, strconv.Itoa(int(res.Port)))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.coordinators[group] = addr
	return addr, nil
}

func (c *Cluster) coordinatorFailed(group string) {
	c.routes.mu.Lock()
	defer c.routes.mu.Unlock()
	delete(c.routes.coordinators, group)
}

// pause waits, or returns the reason why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
