package kafkasvc

import (
	"context"
	"fmt"
	"strings"

	"github.com/chathome/chathome/kafkasvc/kafkalog"
)

// RefusedError: the topics or the broker are set up so that the home would lose or mix up data. It names
// every fault.
type RefusedError struct{ Findings []kafkalog.Finding }

func (e *RefusedError) Error() string {
	lines := []string{"Kafka is not set up for this home"}
	for _, f := range e.Findings {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

// meet looks before anything is made whether the brokers understand what is said to them. One that does not answer now
// is looked at by prepare.
func (h *Home) meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Timeouts.RPC)
	defer cancel()
	findings, err := h.cluster.CheckVersions(ctx)
	if err != nil {
		return nil // whoever needs the brokers waits for them, and says so
	}
	return h.judge(findings)
}

// prepare makes the messages topic where it is missing and holds both topics against what the home needs.
func (h *Home) prepare(ctx context.Context, shards int) error {
	for attempt := 0; ; attempt++ {
		err := h.ensureTopic(ctx, messagesTopic(h.cfg.TopicPrefix), shards)
		var findings []kafkalog.Finding
		if err == nil {
			findings, err = h.check(ctx, shards)
		}
		if err == nil {
			return h.judge(findings)
		}
		if attempt%8 == 0 {
			h.lg.Warn("the messages topic cannot be prepared; trying again", "err", err)
		}
		h.waitFor("preparing the messages topic: " + err.Error())
		if err := defaultWaits().backOff(ctx, attempt); err != nil {
			return err
		}
	}
}

func (h *Home) judge(findings []kafkalog.Finding) error {
	var refused []kafkalog.Finding
	for _, f := range findings {
		attrs := []any{"topic", f.Topic, "broker", f.Broker, "setting", f.Setting, "value", f.Value, "want", f.Want, "why", f.Why, "fix", f.Fix}
		if f.Severity == kafkalog.Refuse {
			refused = append(refused, f)
			h.lg.Error("Kafka is not set up for this home", attrs...)
		} else {
			h.lg.Warn("Kafka could be set up better for this home", attrs...)
		}
	}
	if len(refused) > 0 {
		return &RefusedError{Findings: refused}
	}
	return nil
}

// ensureTopic makes a topic where it is missing.
func (h *Home) ensureTopic(ctx context.Context, name string, partitions int) error {
	spec, err := h.topicSpec(ctx, name, partitions)
	if err != nil {
		return err
	}
	return h.cluster.EnsureTopic(ctx, spec)
}

const wantedReplication = 3

func (h *Home) topicSpec(ctx context.Context, name string, partitions int) (kafkalog.TopicSpec, error) {
	spec := kafkalog.TopicSpec{
		Name: name, Partitions: partitions, MaxMessageBytes: MaxBatchBytes,
		ReplicationFactor: h.cfg.ReplicationFactor, MinInSync: h.cfg.MinInsync,
	}
	if spec.ReplicationFactor == 0 {
		brokers, err := h.cluster.BrokerCount(ctx)
		if err != nil {
			return spec, fmt.Errorf("count the brokers: %w", err)
		}
		spec.ReplicationFactor = min(wantedReplication, brokers)
		if brokers < wantedReplication && !h.cfg.SingleBroker {
			h.fewBrokers.Do(func() {
				h.lg.Warn("fewer than three brokers: a message is lost with the disk of its broker", "brokers", brokers)
			})
		}
	}
	if spec.MinInSync == 0 {
		spec.MinInSync = 1
		if spec.ReplicationFactor >= 3 {
			spec.MinInSync = 2
		}
	}
	return spec, nil
}

// check holds both topics and the brokers against what the home needs.
func (h *Home) check(ctx context.Context, shards int) ([]kafkalog.Finding, error) {
	want := kafkalog.Requirements{SessionTimeout: h.cfg.Timeouts.Session}
	for _, t := range []struct {
		name       string
		partitions int
	}{{messagesTopic(h.cfg.TopicPrefix), shards}, {directoryTopic(h.cfg.TopicPrefix), 1}} {
		spec, err := h.topicSpec(ctx, t.name, t.partitions)
		if err != nil {
			return nil, err
		}
		want.Topics = append(want.Topics, spec)
	}
	return h.cluster.Check(ctx, want)
}

// countPartitions implements directory.Config.Partitions.
func (h *Home) countPartitions(ctx context.Context) (int, error) {
	return h.cluster.PartitionCount(ctx, messagesTopic(h.cfg.TopicPrefix))
}
