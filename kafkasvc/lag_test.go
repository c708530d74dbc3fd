package kafkasvc

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// lag is what lag tools show, by partition: end of the log minus the group's committed offset.
func lag(t *testing.T, adm *kadm.Client) map[int32]int64 {
	t.Helper()
	lags, err := adm.Lag(t.Context(), "chathome")
	if err != nil {
		t.Fatal(err)
	}
	if err := lags.Error(); err != nil {
		t.Fatal(err)
	}
	all := map[int32]int64{}
	for _, m := range lags.Sorted()[0].Lag.Sorted() {
		if m.Topic == messages {
			all[m.Partition] = m.Lag
		}
	}
	return all
}

// Lag tools show nothing for instances that are open and quiet, and while a shard is loaded what is missing.
func TestHome_LagToolsShowTheTruth(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		cl := stranger(t, c)
		defer cl.Close()
		adm := kadm.NewClient(cl)
		none := func() error {
			all := lag(t, adm)
			if len(all) != 4 {
				return fmt.Errorf("%d partitions", len(all))
			}
			for p, n := range all {
				if n != 0 {
					return fmt.Errorf("partition %d: %d", p, n)
				}
			}
			return nil
		}

		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		for i := range 30 {
			sendAnywhere(t, info, "alice", fmt.Sprint("m", i), "text", a)
		}
		time.Sleep(2 * a.cfg.CommitInterval)
		if err := none(); err != nil {
			t.Errorf("open and quiet: %v", err)
		}
		a.end()

		// Another instance has everything to read, and the broker is slow.
		b := join(t, c, "b", func(cfg *Config) { cfg.CommitInterval = time.Second })
		hold := b.link.Arm(kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: kmsg.Fetch.Int16(), Topic: messages, Delay: 4 * time.Second, Count: -1})
		time.Sleep(3500 * time.Millisecond)
		if got := lag(t, adm)[int32(info.Shard)]; got < 30 {
			t.Errorf("while loading: %d", got)
		}
		if len(b.Ready()) == 0 {
			t.Error("ready while the broker holds everything back")
		}
		hold.Stop()
		b.ready()
		time.Sleep(2 * time.Second)
		if err := none(); err != nil {
			t.Errorf("loaded: %v", err)
		}
	})
}
