package kafkalog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const topic = "t"

// start runs a cluster with a topic of two partitions and a client of it.
func start(t testing.TB, opts ...kfake.Opt) (*kafkatest.Cluster, *kafkalog.Cluster) {
	t.Helper()
	k := kafkatest.Start(t, append([]kfake.Opt{kfake.SeedTopics(2, topic)}, opts...)...)
	return k, connect(t, k)
}

func connect(t testing.TB, k *kafkatest.Cluster) *kafkalog.Cluster {
	t.Helper()
	c := kafkalog.New(kafkalog.Config{Brokers: k.Addrs(), Dial: k.Dial, ClientID: "test"})
	t.Cleanup(c.Close)
	return c
}

func records(values ...string) []kafkalog.Record {
	rs := make([]kafkalog.Record, len(values))
	for i, v := range values {
		rs[i] = kafkalog.Record{Key: []byte("k"), Value: []byte(v)}
	}
	return rs
}

func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func mustAppend(t testing.TB, c *kafkalog.Cluster, values ...string) domain.Offset {
	t.Helper()
	base, err := c.Append(within(t, 5*time.Second), topic, 0, records(values...))
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return base
}

// readAll reads until an empty poll. Records look like "offset:value".
func readAll(t testing.TB, r *kafkalog.Reader, from domain.Offset) (got []string, err error) {
	t.Helper()
	for {
		n := len(got)
		err := r.Read(within(t, time.Minute), from, func(off domain.Offset, value []byte) bool {
			got = append(got, fmt.Sprintf("%d:%s", off, value))
			from = off + 1
			return true
		})
		if err != nil {
			return got, err
		}
		if len(got) == n {
			return got, nil
		}
	}
}

func appendError(t testing.TB, err error) *kafkalog.AppendError {
	t.Helper()
	var e *kafkalog.AppendError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *AppendError", err)
	}
	return e
}

func text(n int) string { return strings.Repeat("x", n) }
