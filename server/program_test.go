package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// program builds the binary once and returns its path.
func program(t *testing.T) string {
	t.Helper()
	path, err := builtProgram()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var builtProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "chathome-program")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "chathome")
	build := exec.Command("go", "build", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// environment is that of the test without chathome's own variables.
func environment(extra ...string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "CHATHOME_") {
			env = append(env, entry)
		}
	}
	return append(env, extra...)
}

// once runs the program to its end.
func once(t *testing.T, env []string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program(t), args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = t.TempDir(), env, &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

func TestProgram_ExitCodes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		why       string
		env, args string
		code      int
		out, err  []string // what has to be there
	}{
		{"help", "", "--help", 0, []string{"serve", "broker", "schema", "Exit codes"}, nil},
		{"help of a command", "", "serve --help", 0, []string{"--session-timeout=6s", "$CHATHOME_SESSION_TIMEOUT"}, nil},
		{"version", "", "--version", 0, []string{"chathome "}, nil},
		{"version of a command", "", "broker --version", 0, []string{"chathome "}, nil},
		{"the schema", "", "schema", 0, []string{"type Subscription {", "union SendMessageResult", "extensions.code"}, nil},
		{"no command", "", "", 2, nil, []string{"serve", "--help"}},
		{"an unknown command", "", "sevre", 2, nil, []string{"sevre", "--help"}},
		{"an unknown flag", "", "serve --colour=red", 2, nil, []string{"--colour", "--help"}},
		{"a password on the command line", "", "serve --kafka-password=secret", 2, nil, []string{"--kafka-password"}},
		{"every fault at once", "CHATHOME_GATE=door", "serve --shards=0 --session-timeout=1s --kafka-tls-ca=" + file, 2, nil,
			[]string{"4 faults", "--gate (CHATHOME_GATE)", "--shards", "--session-timeout", "--kafka-tls-ca"}},
		{"a file that is not there", "", "serve --brokers=127.0.0.1:1 --kafka-sasl=plain --kafka-user=u --kafka-password-file=nowhere", 2, nil, []string{"--kafka-password-file", "nowhere"}},
		{"a broker for everybody", "", "broker --listen=0.0.0.0:0", 2, nil, []string{"--listen", "loopback"}},
		{"an address that is taken", "", "serve --data-dir=:memory: --listen=" + taken.Addr().String(), 1, nil, []string{"address already in use"}},
		{"a broker address that is taken", "", "broker --data-dir=:memory: --listen=" + taken.Addr().String(), 1, nil, []string{"address already in use"}},
		{"a data directory that is a file", "", "serve --listen=127.0.0.1:0 --data-dir=" + file, 1, nil, []string{file}},
	} {
		t.Run(tc.why, func(t *testing.T) {
			code, out, errOut := once(t, environment(strings.Fields(tc.env)...), strings.Fields(tc.args)...)
			if code != tc.code {
				t.Errorf("code %d, want %d\n%s%s", code, tc.code, out, errOut)
			}
			for _, want := range tc.out {
				if !strings.Contains(out, want) {
					t.Errorf("output lacks %q:\n%s", want, out)
				}
			}
			for _, want := range tc.err {
				if !strings.Contains(errOut, want) {
					t.Errorf("error lacks %q:\n%s", want, errOut)
				}
			}
			if strings.Contains(out+errOut, "panic") || strings.Contains(errOut, "goroutine ") {
				t.Errorf("a panic:\n%s%s", out, errOut)
			}
			if code == 2 && out != "" {
				t.Errorf("wrong usage writes to the output:\n%s", out)
			}
		})
	}
}

// server is a running chathome serve or broker.
type server struct {
	t   *testing.T
	cmd *exec.Cmd
	url string // GraphiQL's, or the broker's address
	log *logBuffer
}

// launch starts the program and waits for the line that says where it is.
func launch(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, log: &logBuffer{}, cmd: exec.Command(program(t), args...)}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stderr = t.TempDir(), environment(), s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil {
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
		http.DefaultClient.CloseIdleConnections()
		if t.Failed() {
			t.Logf("%v:\n%s", args, s.log)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no line with an address: %v\n%s", err, s.log)
	}
	_, s.url, _ = strings.Cut(strings.TrimSpace(line), ": ")
	return s
}

// await asks until the answer is yes; the text is what it got instead.
func (s *server) await(what string, ask func() (bool, string)) {
	s.t.Helper()
	var last string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		ok, got := ask()
		if ok {
			return
		}
		last = got
	}
	s.t.Fatalf("%s: %s\n%s", what, last, s.log)
}

func (s *server) ready() (int, string) {
	answer, err := http.Get(s.url + "readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(b)
}

func (s *server) waitReady() {
	s.t.Helper()
	s.await("ready", func() (bool, string) {
		status, body := s.ready()
		return status == http.StatusOK, body
	})
}

func (s *server) ask(query string) string {
	s.t.Helper()
	body, _ := json.Marshal(map[string]string{"query": query})
	answer, err := http.Post(s.url+"graphql", "application/json", bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	return string(b)
}

// end sends a signal and returns the exit code and how long it took.
func (s *server) end(signal os.Signal) (int, time.Duration) {
	s.t.Helper()
	began := time.Now()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
	_ = s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode(), time.Since(began)
}

func (s *server) cleanEnd() {
	s.t.Helper()
	if code, took := s.end(syscall.SIGTERM); code != 0 || took > 2*time.Second {
		s.t.Errorf("ended with %d after %s\n%s", code, took, s.log)
	}
}

func TestProgram_KeepsMessagesOverAStopAndAKill(t *testing.T) {
	dir := t.TempDir()
	args := []string{"serve", "--listen=127.0.0.1:0", "--data-dir=" + dir}
	const (
		room    = "0b8f6e0a-5f0e-4f5e-9a45-0b8d3c6f7a11"
		history = `{ chatRoom(id: "` + room + `") { messages(first: 10) { edges { node { serial text } } } } }`
	)
	send := func(s *server, n int) {
		t.Helper()
		got := s.ask(fmt.Sprintf(`mutation { sendMessage(input: {chatRoomId: %q, user: "alice", clientId: "%d", text: "number %[2]d"}) {
			... on SendMessageSuccess { message { serial } } ... on UserError { reason } } }`, room, n))
		if !strings.Contains(got, fmt.Sprintf(`"serial":"%d"`, n)) {
			t.Fatalf("send %d: %s", n, got)
		}
	}
	s := launch(t, args...)
	s.waitReady()
	if got := s.ask(`mutation { createChatRoom(input: {name: "lounge", id: "` + room + `"}) { ... on CreateChatRoomSuccess { duplicate } } }`); !strings.Contains(got, `"duplicate":false`) {
		t.Fatal(got)
	}
	send(s, 1)
	s.cleanEnd()

	s = launch(t, args...)
	s.waitReady()
	send(s, 2)
	if code, out, errOut := once(t, environment(), args...); code != 1 || !strings.Contains(errOut, "another process") {
		t.Errorf("a second one on the same directory: %d\n%s%s", code, out, errOut)
	}
	if code, _ := s.end(syscall.SIGKILL); code != -1 {
		t.Errorf("killed: %d", code)
	}

	s = launch(t, args...)
	s.waitReady()
	send(s, 3)
	if got := s.ask(history); strings.Count(got, "number") != 3 || !strings.Contains(got, `"text":"number 1"`) {
		t.Errorf("history: %s", got)
	}
	s.cleanEnd()
}

func TestProgram_SharesABrokerAndHandsOver(t *testing.T) {
	dir := t.TempDir()
	b := launch(t, "broker", "--listen=127.0.0.1:0", "--data-dir="+dir)
	serve := func(name string) *server {
		return launch(t, "serve", "--listen=127.0.0.1:0", "--brokers="+b.url, "--data-dir="+filepath.Join(dir, name), "--instance-id="+name, "--session-timeout=2s", "--rebalance-timeout=2s")
	}
	one := serve("one")
	one.waitReady()
	two := serve("two")
	two.waitReady()
	if got := two.ask(`{ instance { id url } }`); !strings.Contains(got, `"id":"two"`) || !strings.Contains(got, strings.TrimSuffix(two.url, "/")) {
		t.Errorf("instance: %s", got)
	}
	one.cleanEnd()
	two.await("all shards", func() (bool, string) {
		got := two.ask(`{ shards { state } }`)
		return strings.Count(got, `"OPEN"`) == 12, got
	})
	two.cleanEnd()
	if code, took := b.end(os.Interrupt); code != 0 || took > 2*time.Second {
		t.Errorf("the broker ended with %d after %s", code, took)
	}
}

// At start the process waits, not ready, and says why; it stops in time all the same.
func TestProgram_WaitsForKafkaAndStopsWithoutIt(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for why, broker := range map[string]string{"refusing": "127.0.0.1:1", "silent": silent.Addr().String()} {
		t.Run(why, func(t *testing.T) {
			s := launch(t, "serve", "--listen=127.0.0.1:0", "--data-dir=:memory:", "--brokers="+broker)
			s.await("a reason", func() (bool, string) {
				status, body := s.ready()
				return status == http.StatusServiceUnavailable && strings.Contains(body, "waiting for the directory"), body
			})
			if got := s.ask(`{ shards { state } instance { id } }`); strings.Contains(got, "INTERNAL") {
				t.Errorf("while waiting: %s", got)
			}
			s.cleanEnd()
		})
	}
}

func TestProgram_SaysThatAUserIsAClaimWhenItListensBeyondThisMachine(t *testing.T) {
	for listen, warns := range map[string]bool{"0.0.0.0:0": true, "127.0.0.1:0": false} {
		s := launch(t, "serve", "--listen="+listen, "--data-dir=:memory:")
		s.waitReady()
		s.cleanEnd()
		if got := strings.Contains(s.log.String(), "a claim and not a proof"); got != warns {
			t.Errorf("%s: warned %v\n%s", listen, got, s.log)
		}
	}
}
