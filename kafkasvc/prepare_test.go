package kafkasvc

import (
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// The settings are read once at the start: the broker's, and each topic's. Twice would warn twice.
func TestHome_ChecksTheSettingsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		join(t, c, "a").ready()
		if n := c.Requests(kmsg.DescribeConfigs.Int16(), ""); n != 3 {
			t.Errorf("%d questions about settings, want 3", n)
		}
	})
}

// A broker that is too old is refused in one finding, before anything is made on it; the oldest that will do is served.
func TestHome_RefusesABrokerThatIsTooOld(t *testing.T) {
	for name, old := range map[string]*kversion.Versions{"0.10.2": kversion.V0_10_2(), "1.1": kversion.V1_1_0(), "2.0": kversion.V2_0_0()} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				c := kafkatest.Start(t, kfake.MaxVersions(old))
				link := c.NewLink()
				cfg := testConfig(c, link, "a")
				h, err := New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				err = h.Run(t.Context())
				if e := (*RefusedError)(nil); !errors.As(err, &e) || len(e.Findings) != 1 || !strings.Contains(err.Error(), "To mend it: run Apache Kafka 2.1 or later") {
					t.Errorf("it ends with %v", err)
				}
				if n := c.Requests(kmsg.CreateTopics.Int16(), ""); n > 0 {
					t.Errorf("%d topics were made", n)
				}
				if err := h.Close(); err != nil {
					t.Error(err)
				}
				found, err := Check(t.Context(), cfg)
				if err != nil || len(found) != 1 || !kafkalog.Refused(found) {
					t.Errorf("the check says %v, %v", found, err)
				}
			})
		})
	}
	bubbletest.Test(t, func(t *testing.T) {
		join(t, kafkatest.Start(t, kfake.MaxVersions(kversion.V2_1_0())), "a").ready()
	})
}

// Who cannot be reached is waited for, and no longer than a request may take.
func TestHome_WaitsForBrokersThatAreAway(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		link := c.NewLink()
		cfg := testConfig(c, link, "a")
		link.Silence()
		h := startHome(t, c, cfg, link)
		eventually(t, "it says what it waits for", func() error {
			if rs := h.Ready(); len(rs) == 0 || !strings.Contains(rs[0].Reason, "directory") {
				return errors.New("it does not")
			}
			return nil
		})
		link.Heal()
		h.ready()
	})
}
