//go:build kafka

package kafka_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// program builds the binary once and returns its path.
func program(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// builtIn is the folder of the built program, for TestMain to remove.
var builtIn string

var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "chathome-program-")
	if err != nil {
		return "", err
	}
	builtIn = dir
	path := filepath.Join(dir, "chathome")
	build := exec.Command("go", "build", "-o", path, "../../server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

// once runs the program to its end.
func once(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program(t), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &stdout, &stderr
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "CHATHOME_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}

// server is a running chathome serve.
type server struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	log  *logLines
	done chan struct{}
}

// serve starts the program and waits until it serves HTTP.
func serve(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{t: t, log: &logLines{}, done: make(chan struct{})}
	s.cmd = exec.Command(program(t), append([]string{"serve", "--listen=127.0.0.1:0", "--data-dir=:memory:", "--shards=2"}, args...)...)
	s.cmd.Dir, s.cmd.Stderr = t.TempDir(), s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		s.end()
		if t.Failed() {
			t.Logf("log of chathome %v:\n%s", args, s.log)
		}
	})
	if err != nil {
		t.Fatalf("it says nothing: %v", err)
	}
	_, s.url, _ = strings.Cut(strings.TrimSpace(line), ": ")
	return s
}

// end stops it.
func (s *server) end() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(15 * time.Second):
		s.t.Error("it does not stop")
		_ = s.cmd.Process.Kill()
		<-s.done
	}
}

// ready waits until it is, and stores a message.
func (s *server) ready() *server {
	s.t.Helper()
	eventually(s.t, 60*time.Second, "ready", func() error {
		answer, err := http.Get(s.url + "readyz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			b, _ := io.ReadAll(answer.Body)
			return errors.New(string(b))
		}
		return nil
	})
	eventually(s.t, 20*time.Second, "a room is made", func() error {
		got := s.ask(`mutation { createChatRoom(input: {name: "kitchen"}) { ... on CreateChatRoomSuccess { chatRoom { id } } } }`)
		_, rest, ok := strings.Cut(got, `"id":"`)
		if !ok {
			return errors.New(got)
		}
		id, _, _ := strings.Cut(rest, `"`)
		got = s.ask(`mutation { sendMessage(input: {chatRoomId: "` + id + `", user: "alice", clientId: "1", text: "hi"}) { ... on SendMessageSuccess { message { serial } } } }`)
		if !strings.Contains(got, `"serial":"1"`) {
			return errors.New(got)
		}
		return nil
	})
	return s
}

func (s *server) ask(query string) string {
	body, _ := json.Marshal(map[string]string{"query": query})
	answer, err := http.Post(s.url+"graphql", "application/json", bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	return string(b)
}

// says waits for a line that holds all of the words.
func (s *server) says(words ...string) {
	s.t.Helper()
	eventually(s.t, 20*time.Second, fmt.Sprintf("it logs a line with %q", words), func() error {
		if len(s.log.with(words...)) == 0 {
			return errors.New("no such line")
		}
		return nil
	})
}

// patient: what does not work is told, but not over and over.
func (s *server) patient() {
	s.t.Helper()
	before := len(s.log.with("level="))
	time.Sleep(4 * time.Second)
	if n := len(s.log.with("level=")) - before; n > 12 {
		s.t.Errorf("%d lines in 4 s", n)
	}
}
