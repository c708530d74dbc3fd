package traffic

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chathome/chathome/test/chat"
	"github.com/chathome/chathome/test/check"
	"github.com/chathome/chathome/test/cluster"
	"github.com/chathome/chathome/test/corpus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A crowd at two instances, of which one is killed and comes back.
func TestTraffic_EndsWithACleanVerdict(t *testing.T) {
	program := filepath.Join(t.TempDir(), "chathome")
	build := exec.Command("go", "build", "-o", program, "../../server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	c, err := cluster.New(cluster.Config{Program: program, Instances: 2, Serve: []string{"--session-timeout", "2s", "--rebalance-timeout", "2s"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	net := chat.NewNet(&check.History{})
	net.Know(c.URLs()...)
	crowd, err := Start(ctx, net, Config{Seed: 1, Rooms: 3, Writers: 4, Pace: 20 * time.Millisecond, Births: true, Texts: corpus.Load(), Probes: c.URLs()})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	if err := c.Instances[0].Kill(); err != nil {
		t.Error(err)
	}
	time.Sleep(4 * time.Second)
	if err := c.Instances[0].Start(); err != nil {
		t.Error(err)
	}
	time.Sleep(3 * time.Second)
	crowd.Quiet(20 * time.Second)
	if err := crowd.Settle(ctx); err != nil {
		t.Error(err)
	}
	v, err := crowd.Judge(ctx, c.Brokers())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.WriteTo(t.Output()); err != nil {
		t.Error(err)
	}
	if !v.Clean() || v.Messages < 100 || v.Sends[check.Mutation] == 0 || crowd.Resumes.Load() == 0 {
		t.Errorf("%d messages, %d resumes", v.Messages, crowd.Resumes.Load())
	}
	if err := c.Stop(15 * time.Second); err != nil {
		t.Error(err)
	}
}
