//go:build kafka

package kafka_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chathome/chathome/test/kafka"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if builtIn != "" {
			_ = os.RemoveAll(builtIn)
		}
		os.Exit(code)
	}))
}

// logsEnv names a folder to keep the brokers' logs of failed tests in; default: the one for temporary files.
const logsEnv = "CHATHOME_KAFKA_LOGS"

// start runs a cluster for a test. Only one test at a time has one: a JVM wants its memory.
func start(t *testing.T, cfg kafka.Config) *kafka.Cluster {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = workDir(t)
	}
	c, err := kafka.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// workDir is for brokers. It stays when the test fails, without the records.
func workDir(t *testing.T) string {
	t.Helper()
	if parent := os.Getenv(logsEnv); parent != "" {
		if err := os.MkdirAll(parent, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp(os.Getenv(logsEnv), "chathome-kafka-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
			return
		}
		disks, _ := filepath.Glob(filepath.Join(dir, "*", "data"))
		for _, disk := range disks {
			_ = os.RemoveAll(disk)
		}
		t.Logf("the brokers' logs are kept in %s", dir)
	})
	return dir
}

var prefixes atomic.Int64

// prefix is a topic prefix that no other test of this process uses.
func prefix() string {
	return fmt.Sprintf("t%d-%d", os.Getpid(), prefixes.Add(1))
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d) // cleanups wait too
	t.Cleanup(cancel)
	return ctx
}

// eventually waits, in real time: brokers know no other.
func eventually(t *testing.T, limit time.Duration, what string, f func() error) {
	t.Helper()
	began := time.Now()
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Since(began) > limit {
			t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
