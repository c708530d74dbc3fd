package kafkasvc

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

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
