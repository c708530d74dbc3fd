package kafkasvc

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
)

// Check does what an instance does at its start before it makes anything: it holds the brokers, and the topics that
// are there, against what the home needs. Nothing is changed, and no local data are opened. An error says why the
// brokers could not be asked, in words for an operator.
func Check(ctx context.Context, cfg Config) ([]kafkalog.Finding, error) {
	cfg.setDefaults()
	h := &Home{cfg: cfg, lg: cfg.Log, cluster: newCluster(&cfg)}
	defer h.cluster.Close()
	findings, err := h.checkOnly(ctx)
	if err == nil {
		return findings, nil
	}
	reason, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*cfg.Timeouts.RPC)
	defer cancel()
	if why := h.cluster.Reason(reason); why != nil {
		err = why // what is at the bottom of it
	}
	return nil, fmt.Errorf("check Kafka: %w", err)
}

func (h *Home) checkOnly(ctx context.Context) ([]kafkalog.Finding, error) {
	if old, err := h.cluster.CheckVersions(ctx); err == nil && len(old) > 0 {
		return old, nil // nothing else could be asked
	}
	shards := h.cfg.Shards // of topics that are yet to be made
	life, err := directory.Pinned(ctx, directoryLog{h})
	switch {
	case errors.Is(err, kafka.UnknownTopicOrPartition):
	case err != nil:
		return nil, fmt.Errorf("read the pinned number of shards: %w", err)
	case life.Shards > 0:
		shards = life.Shards
	}
	return h.check(ctx, shards)
}
