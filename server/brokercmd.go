package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/chathome/chathome/server/broker"
	"github.com/chathome/chathome/server/config"
)

// broker runs the embedded broker as a process of its own until it is told to stop.
func (p process) broker(cfg config.Broker) error {
	log := p.logger(cfg.Logging)
	b, err := broker.Listen(brokerConfig(cfg.DataDir, log), cfg.Listen)
	if err != nil {
		return err
	}
	log.Info("the embedded broker is listening; it is for one machine and for trying out", "addresses", b.Addrs())
	fmt.Fprintf(p.out, "Kafka: %s\n", b.Addrs()[0])
	s := <-p.signals
	log.Info("stopping", "signal", s.String())
	defer p.exitOnSecondSignal(log)()
	began := time.Now()
	err = stopInOrder(log, cfg.ShutdownTimeout, []step{
		{name: "close the embedded broker", do: func(context.Context) error { return b.Close() }},
	})
	log.Info("stopped", "took", time.Since(began).Round(time.Millisecond))
	return err
}

// embedded starts a broker that nobody else can reach.
func embedded(cfg config.Config, log *slog.Logger) (kafka, error) {
	b, err := broker.Embedded(brokerConfig(cfg.DataDir, log))
	if err != nil {
		return kafka{}, err
	}
	return kafka{brokers: b.Addrs(), dial: b.Dial, close: b.Close}, nil
}

func brokerConfig(dataDir string, log *slog.Logger) broker.Config {
	if dataDir == config.InMemory {
		return broker.Config{Log: log}
	}
	return broker.Config{DataDir: filepath.Join(dataDir, brokerFolder), Log: log}
}
