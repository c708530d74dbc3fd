package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// The whole program: what clients do shows at the address of --metrics-listen, and nowhere else.
func TestProgram_ShowsMetrics(t *testing.T) {
	s := launch(t, "serve", "--listen=127.0.0.1:0", "--data-dir=:memory:", "--metrics-listen=127.0.0.1:0")
	s.waitReady()
	address := regexp.MustCompile(`msg="serving metrics" url=(\S+)`).FindStringSubmatch(s.log.String())
	if address == nil {
		t.Fatalf("no address of the metrics:\n%s", s.log)
	}
	get := func(url string) (int, string) {
		answer, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		b, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(b)
	}
	const room = "0b8f6e0a-5f0e-4f5e-9a45-0b8d3c6f7a11"
	if got := s.ask(`mutation { createChatRoom(input: {name: "lounge", id: "` + room + `"}) { ... on CreateChatRoomSuccess { duplicate } } }`); !strings.Contains(got, `"duplicate":false`) {
		t.Fatal(got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(s.url, "http")+"graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	for _, m := range []string{`{"type":"connection_init"}`, `{"id":"1","type":"subscribe","payload":{"query":"subscription { messages(chatRoomId: \"` + room + `\") { endCursor } }"}}`} {
		if err := c.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"chathome_ready 1", `chathome_gate_state{state="open"} 1`, `chathome_shards{state="open"} 12`, "chathome_rooms 1", "chathome_store_bytes ",
		"chathome_sockets 1", "chathome_subscriptions 1", `chathome_socket_operations_total{kind="subscription"} 1`, "chathome_events_delivered_total 1",
		"go_goroutines ", "process_resident_memory_bytes ", "chathome_build_info{version=",
	}
	s.await("metrics", func() (bool, string) {
		_, body := get(address[1])
		for _, line := range want {
			if !strings.Contains(body, "\n"+line) {
				return false, "no " + line + " in\n" + body
			}
		}
		return true, ""
	})
	if status, _ := get(s.url + "metrics"); status == http.StatusOK {
		t.Error("clients of the API can read metrics")
	}
	_ = c.Close(websocket.StatusNormalClosure, "")
	s.cleanEnd()
}
