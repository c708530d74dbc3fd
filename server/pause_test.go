package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// The owner is stopped with SIGSTOP for longer than its session while another instance takes over and stores fifty
// messages. It wakes up, and the broker is stopped meanwhile, so that nobody tells it what it missed: the clock of its
// lease alone has to. Requests that wait in its sockets are all sent away.
func TestProgram_AnOwnerThatSleptAnswersNothingOld(t *testing.T) {
	b := launch(t, "broker", "--listen=127.0.0.1:0", "--data-dir=:memory:")
	serve := func(name string) *server {
		return launch(t, "serve", "--listen=127.0.0.1:0", "--brokers="+b.url, "--data-dir=:memory:", "--instance-id="+name, "--session-timeout=2s", "--rebalance-timeout=2s")
	}
	const room = "0b8f6e0a-5f0e-4f5e-9a45-0b8d3c6f7a11"
	sending := func(n int) string {
		return fmt.Sprintf(`mutation { sendMessage(input: {chatRoomId: %q, user: "alice", clientId: "%d", text: "number %[2]d"}) {
			... on SendMessageSuccess { duplicate message { serial } } ... on UserError { reason } } }`, room, n)
	}
	const history = `{ chatRoom(id: "` + room + `") { messages(last: 100) { edges { node { serial } } } } }`
	one := serve("one")
	one.waitReady()
	one.ask(`mutation { createChatRoom(input: {name: "lounge", id: "` + room + `"}) { ... on CreateChatRoomSuccess { duplicate } } }`)
	if got := one.ask(sending(1)); !strings.Contains(got, `"serial":"1"`) {
		t.Fatal(got)
	}
	if err := one.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = one.cmd.Process.Signal(syscall.SIGCONT) }() // else it cannot end
	two := serve("two")
	two.await("all shards", func() (bool, string) {
		got := two.ask(`{ shards { state } }`)
		return strings.Count(got, `"OPEN"`) == 12, got
	})
	for n := 2; n <= 50; n++ {
		if got := two.ask(sending(n)); !strings.Contains(got, fmt.Sprintf(`"serial":"%d"`, n)) {
			t.Fatalf("send %d: %s", n, got)
		}
	}

	// Before it wakes up: the kernel takes connections and requests for it.
	questions := map[string]string{"a page": history, "message 51": sending(51), "message 50 again": sending(50)}
	var mu sync.Mutex
	answers := map[string][]string{}
	var waiting, asked sync.WaitGroup
	for what, query := range questions {
		for range 5 {
			asked.Add(1)
			waiting.Go(func() {
				body, _ := json.Marshal(map[string]string{"query": query})
				r, err := http.NewRequest(http.MethodPost, one.url+"graphql", &said{strings.NewReader(string(body)), asked.Done})
				if err != nil {
					t.Error(err)
					return
				}
				r.ContentLength = int64(len(body))
				r.Header.Set("Content-Type", "application/json")
				answer, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Errorf("%s: %v", what, err)
					return
				}
				defer answer.Body.Close()
				got, _ := io.ReadAll(answer.Body)
				mu.Lock()
				defer mu.Unlock()
				answers[what] = append(answers[what], string(got))
			})
		}
	}
	asked.Wait()
	if err := b.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.cmd.Process.Signal(syscall.SIGCONT) }()
	if err := one.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	waiting.Wait()
	for what, list := range answers {
		for _, got := range list {
			if !strings.Contains(got, `"SHARD_NOT_OWNED"`) {
				t.Errorf("%s: %s", what, got)
			}
		}
	}
	if err := b.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var last string
	two.await("message 51", func() (bool, string) {
		for _, s := range []*server{two, one} {
			if last = s.ask(sending(51)); strings.Contains(last, `"serial":"51"`) {
				last = s.ask(history)
				return strings.Count(last, `"serial"`) == 51, last
			}
		}
		return false, last
	})
	one.cleanEnd()
	two.cleanEnd()
	b.cleanEnd()
}

// said is a body that tells when it was read to its end.
type said struct {
	*strings.Reader
	done func()
}

func (s *said) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	if s.Len() == 0 && s.done != nil {
		s.done()
		s.done = nil
	}
	return n, err
}
