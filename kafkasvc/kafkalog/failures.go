package kafkalog

import (
	"context"
	"errors"
	"maps"
	"os"
	"strings"
	"sync"

	"github.com/segmentio/kafka-go"
)

// failures counts what went wrong with requests. Errors are rare enough for a lock.
type failures struct {
	mu     sync.Mutex
	counts map[string]int64
}

// note counts err, if it is one, and returns it. What the caller ended itself is none.
func (f *failures) note(err error) error {
	if err == nil || errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) {
		return err
	}
	kind := failureKind(err)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.counts == nil {
		f.counts = make(map[string]int64)
	}
	f.counts[kind]++
	return err
}

func failureKind(err error) string {
	var code kafka.Error
	switch {
	case errors.Is(err, ErrOutOfRange):
		code = kafka.OffsetOutOfRange
	case errors.As(err, &code):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	default:
		return "connection"
	}
	if title := code.Title(); title != "" {
		return strings.ReplaceAll(strings.ToLower(title), " ", "_")
	}
	return "other" // a broker newer than the library: the log line has its number
}

// Failures are how many requests failed since the start, by Kafka's name of the code (not_leader_for_partition), or
// "timeout" and "connection" where no broker answered.
func (c *Cluster) Failures() map[string]int64 {
	c.failures.mu.Lock()
	defer c.failures.mu.Unlock()
	return maps.Clone(c.failures.counts)
}
