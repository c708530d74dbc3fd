package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/chathome/chathome/test/cluster"
	"github.com/chathome/chathome/test/kafka"
)

// brokers are what the instances of a round rest on: the embedded broker as a process, or real ones.
type brokers interface {
	// pick draws one.
	pick(r *rand.Rand) node
	// serve waits until those that run store records.
	serve(ctx context.Context) error
}

// node is one broker. Its methods return when it is done; Start may return earlier.
type node interface {
	Start(ctx context.Context) error
	Stop() error
	Kill() error
	Pause() error
	Resume() error
}

// embedded is the broker of cluster.Cluster.
type embedded struct{ *cluster.Broker }

func (b embedded) pick(*rand.Rand) node        { return b }
func (b embedded) serve(context.Context) error { return nil } // Start has waited
func (b embedded) Stop() error                 { return b.Broker.Stop(stopLimit) }

// real is Apache Kafka.
type real struct{ *kafka.Cluster }

type realNode struct{ *kafka.Node }

func (b real) pick(r *rand.Rand) node          { return realNode{b.Nodes()[r.IntN(len(b.Nodes()))]} }
func (b real) serve(ctx context.Context) error { return b.Ready(ctx) }
func (n realNode) Start(context.Context) error { return n.Node.Start() }

// startReal starts brokers of Apache Kafka below dir, which notice faults within seconds and allow short sessions.
func startReal(ctx context.Context, o options, dir string) (real, error) {
	version, err := kafka.ParseVersion(o.kafka)
	if err != nil {
		return real{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return real{}, fmt.Errorf("make a folder for the brokers: %w", err)
	}
	properties := kafka.Quick()
	properties["group.min.session.timeout.ms"] = "1000"
	c, err := kafka.Start(ctx, kafka.Config{Version: version, Nodes: o.nodes, Properties: properties, Dir: dir})
	return real{c}, err
}

// stop ends them and leaves their logs, not their records.
func (b real) stop(dir string) error {
	err := b.Cluster.Stop()
	disks, _ := filepath.Glob(filepath.Join(dir, "*", "data")) // the pattern is a good one
	for _, disk := range disks {
		err = errors.Join(err, os.RemoveAll(disk))
	}
	return err
}

// brokerLimit bounds a broker's start and the time until it serves: it reads its data again, and real ones elect.
const brokerLimit = 60 * time.Second

// away takes one broker away, holds that, and brings it back.
func away(ctx context.Context, h hit, low, high time.Duration, take func(node) error, bring func(context.Context, node) error) (int64, error) {
	n := h.brokers.pick(h.rand)
	if err := take(n); err != nil {
		return 0, err
	}
	h.hold(ctx, h.between(low, high))
	limited, cancel := context.WithTimeout(context.Background(), brokerLimit)
	defer cancel()
	return 1, errors.Join(bring(limited, n), h.brokers.serve(limited))
}

func restart(ctx context.Context, n node) error { return n.Start(ctx) }

func resume(_ context.Context, n node) error { return n.Resume() }

// mostAway kills all real brokers but one, so that nothing that is sent can be acknowledged.
func mostAway(ctx context.Context, h hit) (killed int64, err error) {
	b := h.brokers.(real)
	stays := h.rand.IntN(len(b.Nodes()))
	for i, n := range b.Nodes() {
		if i != stays {
			err = errors.Join(err, n.Kill())
			killed++
		}
	}
	h.hold(ctx, h.between(time.Second, 6*time.Second))
	for i, n := range b.Nodes() {
		if i != stays {
			err = errors.Join(err, n.Start())
		}
	}
	limited, cancel := context.WithTimeout(context.Background(), brokerLimit)
	defer cancel()
	return killed, errors.Join(err, b.serve(limited))
}
