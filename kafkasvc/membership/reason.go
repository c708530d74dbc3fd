package membership

import (
	"errors"
	"fmt"

	kafka "github.com/segmentio/kafka-go"
)

// explain says what to do about a failure to join, where it is known. Everything is tried again anyway: the
// cause may be mended at the broker.
func explain(err error, cfg Config) error {
	var code kafka.Error
	if !errors.As(err, &code) {
		return err
	}
	var advice string
	switch code {
	case kafka.InvalidSessionTimeout:
		advice = fmt.Sprintf("the broker refuses a session timeout of %v: choose one within its group.min.session.timeout.ms and group.max.session.timeout.ms", cfg.Timeouts.Session)
	case kafka.InconsistentGroupProtocol:
		advice = fmt.Sprintf("group %q has members of another program: choose another group id, or stop them", cfg.Group)
	case kafka.GroupAuthorizationFailed:
		advice = fmt.Sprintf("the broker allows this user no READ on group %q: add the permission", cfg.Group)
	case kafka.TopicAuthorizationFailed:
		advice = fmt.Sprintf("the broker allows this user no READ and DESCRIBE on topic %q: add the permissions", cfg.Topic)
	case kafka.SASLAuthenticationFailed:
		advice = "the broker refuses the user name or password"
	case kafka.UnsupportedSASLMechanism:
		advice = "the broker does not offer this SASL mechanism"
	case kafka.GroupMaxSizeReached:
		advice = fmt.Sprintf("group %q is full: raise the broker's group.max.size", cfg.Group)
	default:
		return err
	}
	return fmt.Errorf("%s: %w", advice, err)
}
