package main

import (
	"context"
	"crypto/tls"
	"log/slog"
	"sync"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/chathome/chathome/server/config"
)

// credentials are the files for Kafka's security as they are now: each new connection reads them again, so that
// renewed certificates and passwords need no restart. While the files are being replaced, and after a mistake, what
// they held before is used. It is the sasl.Mechanism of the configuration.
type credentials struct {
	cfg config.Config
	log *slog.Logger

	mu   sync.Mutex
	good config.Secrets // the last that could be used
	said string         // the fault that is in the log
}

func (c *credentials) now() config.Secrets {
	fresh, err := c.cfg.ReadSecrets()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		_, err = saslMechanism(c.cfg, fresh.Password)
	}
	if err != nil {
		if err.Error() != c.said {
			c.log.Warn("the files for Kafka's security cannot be used; going on with what they held before", "err", err)
			c.said = err.Error()
		}
		return c.good
	}
	if c.said != "" {
		c.log.Info("the files for Kafka's security can be used again")
		c.said = ""
	}
	c.good = fresh
	return fresh
}

func (c *credentials) tls() *tls.Config { return c.now().TLS }

// Name implements sasl.Mechanism.
func (c *credentials) Name() string {
	switch c.cfg.KafkaSASL {
	case config.SASLPlain:
		return "PLAIN"
	case config.SASLScramSHA256:
		return "SCRAM-SHA-256"
	case config.SASLScramSHA512:
		return "SCRAM-SHA-512"
	}
	return ""
}

// Start implements sasl.Mechanism.
func (c *credentials) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	mechanism, err := saslMechanism(c.cfg, c.now().Password)
	if err != nil {
		return nil, nil, err
	}
	return mechanism.Start(ctx)
}
