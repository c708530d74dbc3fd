package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/membership"
	"github.com/chathome/chathome/server/config"
	"github.com/chathome/chathome/server/httpserver"
)

// kafkaHome is the home over Kafka as this program wants it. The alias keeps the embedded field from hiding the
// method Home.
type (
	kafkaHome struct{ *overKafka }
	overKafka = kafkasvc.Home
)

// NotReady implements home.
func (h kafkaHome) NotReady() []httpserver.Reason {
	var list []httpserver.Reason
	for _, r := range h.Ready() {
		list = append(list, httpserver.Reason{Shard: r.Shard, State: r.State, Reason: r.Reason})
	}
	return list
}

func openHome(cfg config.Config, k kafka, log *slog.Logger) (home, error) {
	h, err := kafkasvc.New(homeConfig(cfg, k, log))
	if err != nil {
		return nil, fmt.Errorf("open the chat home: %w", err)
	}
	return kafkaHome{h}, nil
}

// homeConfig is what the flags say about the home.
func homeConfig(cfg config.Config, k kafka, log *slog.Logger) kafkasvc.Config {
	times := membership.DefaultTimeouts()
	times.Heartbeat = cfg.HeartbeatInterval
	times.Session = cfg.SessionTimeout
	times.Rebalance = cfg.RebalanceTimeout
	times.RPC, times.Margin, times.Drain = config.RPCTimeout, config.LeaseMargin, config.DrainTime
	return kafkasvc.Config{
		Brokers: k.brokers, Dial: k.dial, TLS: k.tls, SASL: k.sasl,
		Timeouts:          times,
		TopicPrefix:       cfg.TopicPrefix,
		GroupID:           cfg.Group(),
		Shards:            cfg.Shards,
		ReplicationFactor: cfg.ReplicationFactor,
		MinInsync:         cfg.MinInsyncReplicas,
		SingleBroker:      cfg.Embedded(),
		InstanceID:        cfg.InstanceID,
		AdvertisedURL:     cfg.AdvertisedURL,
		DataDir:           folder(cfg.DataDir, localFolder),
		Gate:              kafkasvc.Policy(cfg.Gate),
		Log:               log,
	}
}

// kafka is how the brokers are reached.
type kafka struct {
	brokers []string
	dial    func(ctx context.Context, network, address string) (net.Conn, error) // nil: TCP
	tls     func() *tls.Config                                                   // nil: none
	sasl    sasl.Mechanism                                                       // nil: none
	close   func() error                                                         // of the embedded broker
}

// openKafka starts the embedded broker where no others are named.
func openKafka(cfg config.Config, secrets config.Secrets, log *slog.Logger) (kafka, error) {
	if cfg.Embedded() {
		return embedded(cfg, log)
	}
	if _, err := saslMechanism(cfg, secrets.Password); err != nil {
		return kafka{}, err
	}
	k := kafka{brokers: cfg.Brokers, close: func() error { return nil }}
	now := &credentials{cfg: cfg, log: log, good: secrets}
	if cfg.KafkaTLS {
		k.tls = now.tls
	}
	if cfg.KafkaSASL != config.SASLNone {
		k.sasl = now
	}
	return k, nil
}

func saslMechanism(cfg config.Config, password string) (sasl.Mechanism, error) {
	var algorithm scram.Algorithm
	switch cfg.KafkaSASL {
	case config.SASLNone:
		return nil, nil
	case config.SASLPlain:
		return plain.Mechanism{Username: cfg.KafkaUser, Password: password}, nil
	case config.SASLScramSHA256:
		algorithm = scram.SHA256
	case config.SASLScramSHA512:
		algorithm = scram.SHA512
	}
	mechanism, err := scram.Mechanism(algorithm, cfg.KafkaUser, password)
	if err != nil {
		return nil, config.Faults{{Flag: "kafka-password-file", Problem: "the user or password cannot be used with " + string(cfg.KafkaSASL)}}
	}
	return mechanism, nil
}
