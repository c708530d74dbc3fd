//go:build kafka

package kafka_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/test/kafka"
)

// What the contract says on the embedded broker in fake time, it says on each version of the real one.
func TestContract(t *testing.T) {
	for _, v := range kafka.Versions() {
		t.Run(string(v), func(t *testing.T) {
			c := start(t, kafka.Config{Version: v, Properties: kafka.Quick()})
			for _, claim := range domaintest.Contract() {
				t.Run(claim.Name, func(t *testing.T) { claim.Check(t, subject(t, c)) })
			}
			t.Run("the protocol itself", func(t *testing.T) { // tests of a package, which must see its inside
				cmd := exec.Command("go", "test", "-tags", "kafka", "-count=1", "-run", "TestReal", "../../kafkasvc/kafkalog")
				cmd.Env = append(os.Environ(), "CHATHOME_KAFKA="+strings.Join(c.Addrs(), ","))
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		})
	}
}

// subject is a home with topics of its own.
func subject(t *testing.T, c *kafka.Cluster) domaintest.Subject {
	p := prefix()
	messages, directory := topics(p)
	t.Cleanup(func() { drop(t, c, messages, directory) })
	in := join(t, c, p, "a").ready()
	var armed *kafkatest.Armed
	return domaintest.Subject{
		Home: in.house,
		Lock: func(t *testing.T, s domain.ShardID) { // no takeover gets through
			armed = in.link.Arm(kafkatest.Rule{Action: kafkatest.CutBefore, Topic: messages, Count: -1})
			evict(t, c, p)
			eventually(t, 10*time.Second, "locked", func() error {
				if in.opens(s)() == nil {
					return errors.New("open")
				}
				return nil
			})
		},
		Open: func(t *testing.T, s domain.ShardID) {
			armed.Stop()
			eventually(t, 20*time.Second, "open", in.opens(s))
		},
	}
}
