package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/test/cluster"
	"github.com/chathome/chathome/test/kafka"
)

// stage is the one broker, and what plays on it.
type stage struct {
	program   string
	dir       string
	temporary bool
	broker    *kafka.Cluster
	log       *kafkalog.Cluster // to fill topics with
	phases    int               // of sends so far
}

const (
	startLimit = 60 * time.Second
	stopLimit  = 15 * time.Second
)

func newStage(ctx context.Context, program, dir string) (s *stage, err error) {
	if err := kafka.Need(ctx, kafka.Newest); err != nil {
		return nil, err
	}
	s = &stage{program: program, dir: dir, temporary: dir == ""}
	if s.temporary {
		s.dir, err = os.MkdirTemp("", "chathome-kafkaload-")
	} else {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	note("starting Apache Kafka %s in %s", kafka.Newest, s.dir)
	s.broker, err = kafka.Start(ctx, kafka.Config{Properties: kafka.Quick(), Dir: s.dir})
	if err != nil {
		return nil, fmt.Errorf("start a broker: %w", err)
	}
	s.log = kafkalog.New(kafkalog.Config{Brokers: s.broker.Addrs(), RPCTimeout: 10 * time.Second})
	return s, nil
}

// close ends all; a temporary directory goes unless there is something to look at in it.
func (s *stage) close(clean bool) error {
	s.log.Close()
	err := s.broker.Stop()
	switch {
	case s.temporary && clean && err == nil:
		return os.RemoveAll(s.dir)
	default:
		note("data and logs: %s", s.dir)
	}
	return err
}

// home is some instances of one home on the broker, none of them started.
type home struct {
	*cluster.Cluster
	prefix string
	shards int
}

func (s *stage) home(prefix string, shards, instances int, more ...string) (*home, error) {
	c, err := cluster.New(cluster.Config{
		Program: s.program, Dir: filepath.Join(s.dir, prefix), Instances: instances, Brokers: s.broker.Addrs(),
		Serve: append([]string{"--topic-prefix", prefix, "--shards", strconv.Itoa(shards), "--metrics-listen", "127.0.0.1:0"}, more...),
	})
	if err != nil {
		return nil, err
	}
	return &home{Cluster: c, prefix: prefix, shards: shards}, nil
}

// topic is where the home's messages are.
func (h *home) topic() string { return h.prefix + ".messages" }

// start starts instance i and waits until it is ready.
func (h *home) start(ctx context.Context, i int) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := h.Instances[i].Start(); err != nil {
		return err
	}
	return h.Instances[i].WaitReady(ctx)
}

// prepare lets an instance make the topics, and stops it.
func (h *home) prepare(ctx context.Context) error {
	return errors.Join(h.start(ctx, 0), h.Instances[0].Stop(stopLimit))
}

// ensure makes a topic that is like one of messages.
func (s *stage) ensure(ctx context.Context, topic string, partitions int) error {
	return s.log.EnsureTopic(ctx, kafkalog.TopicSpec{Name: topic, Partitions: partitions, ReplicationFactor: 1, MinInSync: 1, MaxMessageBytes: 1 << 20})
}

// roomOn draws a room's id that belongs on a shard.
func roomOn(shard, shards int) uuid.UUID {
	for {
		if id := uuid.New(); domain.ShardOf(id, shards) == domain.ShardID(shard) {
			return id
		}
	}
}
