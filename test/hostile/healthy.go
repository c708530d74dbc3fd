package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"
)

func asError[T any](err error, target *T) bool { return errors.As(err, target) }

const sendQuery = `mutation($input: SendMessageInput!) { sendMessage(input: $input) { ... on SendMessageSuccess { duplicate } ... on UserError { reason } } }`

// api is GraphQL by POST.
type api struct {
	address string
	http    *http.Client
}

func newAPI(address string) *api {
	return &api{address: address, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: patience}}
}

func (a *api) ask(ctx context.Context, query string, variables map[string]any) (string, error) {
	body, _ := json.Marshal(map[string]any{"query": query, "variables": variables})
	r, err := http.NewRequestWithContext(ctx, "POST", "http://"+a.address+"/graphql", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := a.http.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err == nil && bytes.Contains(b, []byte(`"errors"`)) {
		err = fmt.Errorf("answered %s", b)
	}
	return string(b), err
}

func (a *api) room(t *testing.T, name string) string {
	t.Helper()
	id := uuid.NewString()
	if _, err := a.ask(t.Context(), `mutation($id: ID!, $name: String!) { createChatRoom(input: {name: $name, id: $id}) { __typename } }`, map[string]any{"id": id, "name": name}); err != nil {
		t.Fatal(err)
	}
	return id
}

func (a *api) send(ctx context.Context, room, clientID, text string) error {
	_, err := a.ask(ctx, sendQuery, map[string]any{"input": map[string]any{"chatRoomId": room, "user": "u", "clientId": clientID, "text": text}})
	return err
}

// healthy are clients that behave: one sends every 20 ms by POST, some read on sockets. They measure how long an
// answer takes, and a message from being sent to each reader.
type healthy struct {
	t    *testing.T
	api  *api
	stop context.CancelFunc
	all  sync.WaitGroup

	mu       sync.Mutex
	answers  []time.Duration
	arrivals []time.Duration
	sent     int
}

const (
	readers   = 10
	sendEvery = 20 * time.Millisecond
)

var sentAt = regexp.MustCompile(`"clientId":"h-([0-9]+)"`)

func behave(t *testing.T, address string) *healthy {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	h := &healthy{t: t, api: newAPI(address), stop: cancel}
	room := h.api.room(t, "quiet")
	for range readers {
		c, _, err := websocket.Dial(ctx, "ws://"+address+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
		if err != nil {
			t.Fatal(err)
		}
		c.SetReadLimit(1 << 20)
		for _, m := range []string{`{"type":"connection_init"}`, subscription("1", room)} {
			if err := c.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
				t.Fatal(err)
			}
		}
		h.all.Go(func() { h.read(ctx, c) })
	}
	h.all.Go(func() { h.send(ctx, room) })
	return h
}

func (h *healthy) read(ctx context.Context, c *websocket.Conn) {
	defer func() { _ = c.CloseNow() }()
	seen := 0
	for {
		_, b, err := c.Read(ctx)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			h.t.Errorf("a client that behaves was cut: %v", err)
			return
		}
		now := time.Now().UnixNano()
		matches := sentAt.FindAllSubmatch(b, -1)
		seen += len(matches)
		h.mu.Lock()
		for _, m := range matches {
			at, _ := strconv.ParseInt(string(m[1]), 10, 64)
			h.arrivals = append(h.arrivals, time.Duration(now-at))
		}
		h.mu.Unlock()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if seen < h.sent-50 { // the last ones may be on their way
		h.t.Errorf("a client that behaves got %d of %d messages", seen, h.sent)
	}
}

func (h *healthy) send(ctx context.Context, room string) {
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		err := h.api.send(ctx, room, "h-"+strconv.FormatInt(began.UnixNano(), 10), "hello")
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			h.t.Errorf("a client that behaves was refused: %v", err)
			return
		}
		h.mu.Lock()
		h.answers = append(h.answers, time.Since(began))
		h.sent++
		h.mu.Unlock()
	}
}

// noticed is what they noticed since the last call.
type noticed struct{ answer50, answer99, arrival50, arrival99 time.Duration }

func (h *healthy) noticed() (n noticed) {
	h.mu.Lock()
	answers, arrivals := h.answers, h.arrivals
	h.answers, h.arrivals = nil, nil
	h.mu.Unlock()
	n.answer50, n.answer99 = quantiles(answers)
	n.arrival50, n.arrival99 = quantiles(arrivals)
	return n
}

func (n noticed) worst() time.Duration { return max(n.answer99, n.arrival99) }

func (n noticed) String() string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1e6) }
	return fmt.Sprintf("answers p50 %s p99 %s ms, arrivals p50 %s p99 %s ms", ms(n.answer50), ms(n.answer99), ms(n.arrival50), ms(n.arrival99))
}

func quantiles(list []time.Duration) (p50, p99 time.Duration) {
	if len(list) == 0 {
		return 0, 0
	}
	slices.Sort(list)
	return list[len(list)/2], list[len(list)*99/100]
}

func (h *healthy) end() {
	h.stop()
	h.all.Wait()
	h.api.http.CloseIdleConnections()
}
