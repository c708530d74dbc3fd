package kafkalog_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
)

// A broker that refuses for want of a right does not say which; the error does.
func TestRights_TheMissingOneIsNamed(t *testing.T) {
	for _, tt := range []struct {
		key  kmsg.Key
		want string
		do   func(t *testing.T, c *kafkalog.Cluster) error
	}{
		{kmsg.Produce, "lacks the right WRITE on topic t", func(t *testing.T, c *kafkalog.Cluster) error {
			_, err := c.Append(within(t, time.Second), topic, 0, records("a"))
			return err
		}},
		{kmsg.Fetch, "lacks the right READ on topic t", func(t *testing.T, c *kafkalog.Cluster) error {
			_, err := readAll(t, c.Reader(topic, 0), 0)
			return err
		}},
		{kmsg.ListOffsets, "lacks the right DESCRIBE on topic t", func(t *testing.T, c *kafkalog.Cluster) error {
			_, _, err := c.Bounds(within(t, time.Second), topic, 0)
			return err
		}},
		{kmsg.CreateTopics, "lacks the right CREATE on topic new", func(t *testing.T, c *kafkalog.Cluster) error {
			return c.EnsureTopic(within(t, time.Second), kafkalog.TopicSpec{Name: "new", Partitions: 1, ReplicationFactor: 1})
		}},
	} {
		t.Run(tt.key.Name(), func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				k, c := start(t)
				k.Fault(kfake.Fault{Keys: []kmsg.Key{tt.key}, Err: kerr.TopicAuthorizationFailed, Count: -1})
				err := tt.do(t, c)
				if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, kafka.TopicAuthorizationFailed) {
					t.Errorf("%v, want %q", err, tt.want)
				}
			})
		})
	}
}
