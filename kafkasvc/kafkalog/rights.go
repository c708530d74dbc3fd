package kafkalog

import (
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
)

// The rights on a topic, as Kafka names them. READ and WRITE imply DESCRIBE.
const (
	rightRead     = "READ"
	rightWrite    = "WRITE"
	rightCreate   = "CREATE"
	rightDescribe = "DESCRIBE"
)

// lacking says which right is missing where a broker refused for want of one: its own answer does not.
func lacking(right, topic string, err error) error {
	if !errors.Is(err, kafka.TopicAuthorizationFailed) && !errors.Is(err, kafka.ClusterAuthorizationFailed) {
		return err
	}
	return fmt.Errorf("this user lacks the right %s on topic %s (chathome acls prints all that are needed): %w", right, topic, err)
}
