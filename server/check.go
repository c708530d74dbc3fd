package main

import (
	"context"
	"fmt"
	"time"

	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/server/config"
)

// checkTime bounds the check: brokers that are there answer at once.
const checkTime = 15 * time.Second

// check looks at what serve would look at before it starts, and says all of it.
func (p process) check(cfg config.Config, secrets config.Secrets) error {
	log := p.logger(cfg.Logging)
	k, err := openKafka(cfg, secrets, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	findings, err := kafkasvc.Check(ctx, homeConfig(cfg, k, log))
	if err != nil {
		return err
	}
	refused := 0
	for _, f := range findings {
		if f.Severity == kafkalog.Refuse {
			refused++
		}
		fmt.Fprintf(p.out, "%-6s  %s\n        to mend it: %s\n", f.Severity, f.What(), f.Fix)
	}
	if refused > 0 {
		return fmt.Errorf("%d of %d findings about Kafka forbid the start", refused, len(findings))
	}
	fmt.Fprintf(p.out, "Kafka is set up well enough to serve; %d warnings\n", len(findings))
	return nil
}
