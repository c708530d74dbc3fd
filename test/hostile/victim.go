package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// victim is the program under attack, with the embedded broker and everything in memory.
type victim struct {
	t       *testing.T
	cmd     *exec.Cmd
	address string
	log     strings.Builder
	inside  *http.Client
}

// options of the build.
type options struct{ race, leaks bool }

// launch builds and starts it, and waits until it is ready.
func launch(t *testing.T, o options) *victim {
	t.Helper()
	dir := t.TempDir()
	program, socket := filepath.Join(dir, "chathome"), filepath.Join(dir, "inspect")
	args := []string{"build", "-tags", "inspect", "-o", program}
	cgo := "CGO_ENABLED=0" // as make build has it
	if o.race {
		args, cgo = append(args, "-race"), "CGO_ENABLED=1"
	}
	build := exec.Command("go", append(args, "../../server")...)
	build.Env = append(os.Environ(), cgo)
	if o.leaks {
		build.Env = append(build.Env, "GOEXPERIMENT=goroutineleakprofile")
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	v := &victim{t: t, cmd: exec.Command(program, "serve", "--listen=127.0.0.1:0", "--data-dir=:memory:", "--shards=2", "--log-level=warn")}
	v.cmd.Env = append(os.Environ(), "CHATHOME_INSPECT="+socket)
	v.cmd.Stderr = &v.log
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("it did not start: %v\n%s", err, &v.log)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(line), "http://")
	v.address = strings.TrimSuffix(url, "/")
	v.inside = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	eventually(t, "it is ready", time.Minute, func() bool {
		r, err := http.Get("http://" + v.address + "/readyz")
		if err != nil {
			return false
		}
		defer r.Body.Close()
		_, _ = io.Copy(io.Discard, r.Body)
		return r.StatusCode == http.StatusOK
	})
	return v
}

// stop ends it as an operator would. A data race that it met makes it exit with 66.
func (v *victim) stop() {
	if v.cmd.ProcessState != nil {
		return
	}
	_ = v.cmd.Process.Signal(syscall.SIGTERM)
	giveUp := time.AfterFunc(30*time.Second, func() { _ = v.cmd.Process.Kill() })
	defer giveUp.Stop()
	if err := v.cmd.Wait(); err != nil {
		v.t.Errorf("it ended with %v", err)
	}
	if v.t.Failed() {
		v.t.Logf("its log:\n%s", &v.log)
	}
}

// held is what the process holds.
type held struct {
	Goroutines, Heap, Stacks uint64
	files                    int
	resident                 uint64
}

func (h held) memory() uint64 { return h.Heap + h.Stacks }

func (h held) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, heap %.1f MB, stacks %.1f MB, resident %.0f MB",
		h.Goroutines, h.files, float64(h.Heap)/1e6, float64(h.Stacks)/1e6, float64(h.resident)/1e6)
}

// look says what it holds; after a collection it is what is in use.
func (v *victim) look(collect bool) (h held) {
	url := "http://inside/held"
	if collect {
		url += "?gc"
	}
	r, err := v.inside.Get(url)
	if err != nil {
		v.t.Fatalf("look inside: %v\n%s", err, &v.log)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
		v.t.Fatal(err)
	}
	pid := strconv.Itoa(v.cmd.Process.Pid)
	if files, err := os.ReadDir("/proc/" + pid + "/fd"); err == nil { // Linux
		h.files = len(files)
	}
	status, _ := os.ReadFile("/proc/" + pid + "/status")
	if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok {
		kb, _ := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
		h.resident = kb << 10
	}
	return h
}

// leaks is Go's profile of goroutines that can never go on; empty without the experiment.
func (v *victim) leaks() string {
	r, err := v.inside.Get("http://inside/debug/pprof/goroutineleak?debug=1")
	if err != nil {
		v.t.Fatal(err)
	}
	defer r.Body.Close()
	b, _ := io.ReadAll(r.Body)
	if r.StatusCode != http.StatusOK {
		return ""
	}
	return string(b)
}

// watch looks at it until stop is called, which says the most that it held.
func (v *victim) watch() (stop func() held) {
	var peak held
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			h := v.look(false)
			peak.Goroutines, peak.files = max(peak.Goroutines, h.Goroutines), max(peak.files, h.files)
			peak.Stacks, peak.resident = max(peak.Stacks, h.Stacks), max(peak.resident, h.resident)
			peak.Heap = max(peak.Heap, h.Heap)
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	})
	return func() held {
		close(done)
		watching.Wait()
		return peak
	}
}

func eventually(t *testing.T, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("not within %s: %s", limit, what)
			return
		}
	}
}
