//go:build kafka

package kafka_test

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chathome/chathome/test/kafka"
)

// No broker outlives the process that started it, however that ends.
func TestHarness_BrokersDieWithTheirOwner(t *testing.T) {
	play := filepath.Join(t.TempDir(), "play")
	if out, err := exec.Command("go", "build", "-o", play, "./play").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	tmp := t.TempDir()
	cmd := exec.Command(play)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "--brokers 127.0.0.1:") {
		t.Fatalf("it says %q, %v", line, err)
	}
	pids := brokersIn(t, tmp)
	if len(pids) != 1 {
		t.Fatalf("processes %v", pids)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, 10*time.Second, "the broker ends", func() error {
		if left := brokersIn(t, tmp); len(left) > 0 {
			return errors.New("it runs on")
		}
		return nil
	})
}

// brokersIn finds the processes that work in a folder.
func brokersIn(t *testing.T, dir string) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil || len(all) == 0 {
		t.Skip("no /proc to look into")
	}
	for _, link := range all {
		if cwd, err := os.Readlink(link); err == nil && strings.HasPrefix(cwd, dir+"/") {
			pids = append(pids, filepath.Base(filepath.Dir(link)))
		}
	}
	return pids
}

// Nodes of a cluster can be killed, stopped and started again, and keep what they stored.
func TestHarness_ThreeNodesComeAndGo(t *testing.T) {
	c := start(t, kafka.Config{Nodes: 3, Properties: kafka.Quick()})
	for _, end := range []func() error{c.Node(1).Kill, c.Node(2).Stop} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if err := c.Ready(t.Context()); err != nil { // two of three are enough
			t.Fatal(err)
		}
		for _, n := range c.Nodes() {
			if n.Up() {
				continue
			}
			if err := n.Start(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(c.Node(3).Pause(), c.Node(3).Resume()); err != nil {
		t.Error(err)
	}
	if err := c.Node(3).Start(); err == nil {
		t.Error("a node that is up started again")
	}
}
