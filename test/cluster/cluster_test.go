package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("CLUSTER_TEST_CHILD"); dir != "" {
		child(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "chathome")
	build := exec.Command("go", "build", "-o", path, "../../server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// child starts a cluster, tells its processes and waits to be killed.
func child(dir string) {
	c, err := New(Config{Program: filepath.Join(dir, "program"), Dir: filepath.Join(dir, "data"), Instances: 1})
	if err == nil {
		err = c.Start(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = c.Instances[0].Pause() // also one that cannot act is ended
	fmt.Println(c.Broker.PID(), c.Instances[0].PID())
	select {}
}

func alive(pid int) bool {
	// A zombie whose parent has not fetched it is dead too.
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && bytes.Contains(state, []byte(") Z ")) {
		return false
	}
	return syscall.Kill(pid, 0) == nil
}

func TestCluster(t *testing.T) {
	path := program(t)

	t.Run("a killed harness leaves no process", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Symlink(path, filepath.Join(dir, "program")); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "CLUSTER_TEST_CHILD="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var broker, instance int
		_, err = fmt.Fscan(out, &broker, &instance)
		if !alive(broker) || !alive(instance) {
			t.Error("not running", broker, instance, err)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for deadline := time.Now().Add(10 * time.Second); alive(broker) || alive(instance); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("still running", broker, instance)
			}
		}
	})

	t.Run("instances and broker come, go and come back", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := New(Config{Program: path, Instances: 2, Links: true, Serve: []string{"--session-timeout", "2s", "--rebalance-timeout", "2s"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := c.Start(ctx); err != nil {
			t.Fatal(err)
		}
		a, b := c.Instances[0], c.Instances[1]
		if err := a.Start(); !errors.Is(err, ErrRunning) {
			t.Error("started twice:", err)
		}
		if err := b.Pause(); err != nil || !b.Paused() {
			t.Error(err)
		}
		if ready, _ := b.Ready(ctx); ready {
			t.Error("a stopped process answers")
		}
		if err := errors.Join(b.Resume(), b.Kill(), b.Start(), c.WaitReady(ctx)); err != nil {
			t.Error(err)
		}
		if err := errors.Join(c.Broker.Kill(), c.Broker.Start(ctx), c.WaitReady(ctx)); err != nil {
			t.Error(err)
		}
		a.Link.Cut()
		for ready := true; ready; ready, _ = a.Ready(ctx) {
			time.Sleep(20 * time.Millisecond)
		}
		if a.Link.Resets.Load() == 0 {
			t.Error("it does not use its link")
		}
		a.Link.Heal()
		if err := errors.Join(c.WaitReady(ctx), c.Stop(10*time.Second)); err != nil {
			t.Error(err)
		}
		if log, _ := os.ReadFile(a.LogFile); !strings.Contains(string(log), "serving") {
			t.Errorf("log: %s", log)
		}
	})

	t.Run("a link does what it is told", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := New(Config{Program: path, Instances: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Start(ctx); err != nil {
			t.Fatal(err)
		}
		l, err := NewLink()
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ways, err := l.ways(c.Brokers())
		if err != nil {
			t.Fatal(err)
		}
		// A client with other versions of the protocol than the product's: flexible ones.
		client, err := kgo.NewClient(kgo.SeedBrokers(ways...), kgo.DefaultProduceTopic("chathome.messages"), kgo.DisableIdempotentWrite(),
			kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				if address == c.Broker.Address {
					t.Error("led around the link")
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			}))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		write := func() time.Duration {
			began := time.Now()
			if err := client.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err != nil {
				t.Error(err)
			}
			return time.Since(began)
		}
		write()
		l.Slow(100 * time.Millisecond)
		if took := write(); took < 200*time.Millisecond || l.Delayed.Load() == 0 {
			t.Error("not slow:", took)
		}
		l.Stall()
		time.AfterFunc(300*time.Millisecond, l.Heal)
		if took := write(); took < 300*time.Millisecond {
			t.Error("not stalled:", took)
		}
		l.LoseAcks(1)
		if write(); l.LostAcks.Load() != 1 {
			t.Error("no answer was lost")
		}
		l.Cut()
		time.AfterFunc(100*time.Millisecond, l.Heal)
		if write(); l.Resets.Load() == 0 {
			t.Error("nothing was cut")
		}
		l.Silence()
		time.AfterFunc(100*time.Millisecond, l.Heal)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := client.ProduceSync(short, kgo.StringRecord("x")).FirstErr(); err == nil || l.Swallowed.Load() == 0 {
			t.Error("nothing was swallowed", err)
		}
	})
}
