package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/server/config"
	"github.com/chathome/chathome/server/httpserver"
	"github.com/chathome/chathome/server/limits/limitstest"
)

// memoryHome is a home in memory with the life cycle of one on Kafka.
type memoryHome struct {
	*inMemory
	drain  func()        // called after the lock, before the group is left
	fault  chan error    // ends Run
	passed atomic.Int64  // requests that came to the gate
	closed chan struct{} // the local store is
}

type inMemory = domaintest.Home

func newMemoryHome() *memoryHome {
	return &memoryHome{inMemory: domaintest.New(domaintest.Config{}), fault: make(chan error, 1), closed: make(chan struct{})}
}

func (h *memoryHome) Run(ctx context.Context) error {
	select {
	case err := <-h.fault:
		return err
	case <-ctx.Done():
	}
	h.LockAll()
	if h.drain != nil {
		h.drain()
	}
	return nil
}

func (h *memoryHome) ChatRoom(ctx context.Context, shard domain.ShardID, id uuid.UUID) (domain.Room, error) {
	h.passed.Add(1)
	return h.inMemory.ChatRoom(ctx, shard, id)
}

func (h *memoryHome) Stats() kafkasvc.Stats { return kafkasvc.Stats{} }

func (h *memoryHome) Close() error {
	close(h.closed)
	return nil
}

func (h *memoryHome) NotReady() []httpserver.Reason {
	var list []httpserver.Reason
	for _, s := range h.Shards() {
		if s.NotOwned != nil {
			list = append(list, httpserver.Reason{Shard: &s.Shard, State: s.State.String(), Reason: "locked by the test"})
		}
	}
	return list
}

// running is an instance on a loopback port.
type running struct {
	*instance
	t       *testing.T
	home    *memoryHome
	signals chan os.Signal
	exited  chan int   // codes of exits at once
	ended   chan error // what run returned
	address string
	log     *logBuffer
}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, change func(*config.Config, *memoryHome, *instance)) *running {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := config.Defaults()
	cfg.AdvertisedURL = "http://" + listener.Addr().String()
	cfg.AllowedOrigins = []string{"https://app.example"}
	r := &running{
		t: t, home: newMemoryHome(), address: listener.Addr().String(), log: &logBuffer{},
		signals: make(chan os.Signal, 2), exited: make(chan int, 1), ended: make(chan error, 1),
	}
	if change != nil {
		change(&cfg, r.home, nil)
	}
	r.instance, err = newInstance(cfg, r.home, listener, nil, slog.New(slog.NewTextHandler(r.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&cfg, r.home, r.instance)
	}
	go func() {
		r.ended <- r.run(process{signals: r.signals, exit: func(code int) { r.exited <- code }})
	}()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return r
}

// stop asks for one and returns what run returned.
func (r *running) stop() error {
	r.t.Helper()
	r.signals <- syscall.SIGTERM
	select {
	case err := <-r.ended:
		return err
	case <-time.After(20 * time.Second):
		r.t.Fatalf("still running:\n%s", r.log)
		return nil
	}
}

func (r *running) get(path string) (int, string) {
	r.t.Helper()
	answer, err := http.Get("http://" + r.address + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(b)
}

// ask posts an operation and returns the answer as it came.
func (r *running) ask(query string, variables map[string]any) (int, string) {
	r.t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		r.t.Fatal(err)
	}
	answer, err := http.Post("http://"+r.address+"/graphql", "application/json", bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer answer.Body.Close()
	b, _ := io.ReadAll(answer.Body)
	return answer.StatusCode, string(b)
}

const (
	sendMessage = `mutation($room: ID!, $n: String!) { sendMessage(input: {chatRoomId: $room, user: "alice", clientId: $n, text: "hello"}) {
		... on SendMessageSuccess { message { serial } } } }`
	follow = `subscription($room: ID!) { messages(chatRoomId: $room) { edges { node { serial } } endCursor live } }`
)

// room creates a chat room.
func (r *running) room() string {
	r.t.Helper()
	_, body := r.ask(`mutation { createChatRoom(input: {name: "lounge"}) { ... on CreateChatRoomSuccess { chatRoom { id } } } }`, nil)
	var answer struct {
		Data struct {
			CreateChatRoom struct{ ChatRoom struct{ ID string } }
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Data.CreateChatRoom.ChatRoom.ID == "" {
		r.t.Fatalf("create a room: %s", body)
	}
	return answer.Data.CreateChatRoom.ChatRoom.ID
}

// socket opens one and subscribes to room; the first event has come when it returns.
func (r *running) socket(room string) *websocket.Conn {
	r.t.Helper()
	ctx := r.t.Context()
	c, answer, err := websocket.Dial(ctx, "ws://"+r.address+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		r.t.Fatalf("%v %+v", err, answer)
	}
	payload, _ := json.Marshal(map[string]any{"query": follow, "variables": map[string]any{"room": room}})
	for _, m := range []string{`{"type":"connection_init"}`, `{"id":"1","type":"subscribe","payload":` + string(payload) + `}`} {
		if err := c.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
			r.t.Fatal(err)
		}
	}
	for {
		_, b, err := c.Read(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		if strings.Contains(string(b), `"next"`) {
			return c
		}
	}
}

func TestStop_IsInOrder(t *testing.T) {
	steps := make(chan string, 16)
	r := start(t, func(_ *config.Config, h *memoryHome, i *instance) {
		if i != nil {
			i.broker = func() error {
				select {
				case <-h.closed:
				default:
					steps <- "store still open"
				}
				steps <- "broker closed"
				return nil
			}
		}
	})
	r.home.drain = func() {
		status, body := r.get("/readyz")
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "STOPPING") {
			t.Errorf("while draining: %d %s", status, body)
		}
		if status, _ := r.get("/healthz"); status != http.StatusOK {
			t.Errorf("health while draining: %d", status)
		}
		if _, body := r.ask(`{shards {notOwned {state}}}`, nil); strings.Contains(body, `"notOwned":null`) {
			t.Errorf("a shard is open while draining: %s", body)
		}
		select {
		case <-r.home.closed:
			t.Error("the store was closed while the home was draining")
		default:
		}
		steps <- "drained"
	}
	if status, body := r.get("/readyz"); status != http.StatusOK {
		t.Fatalf("not ready: %s", body)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	close(steps)
	var got []string
	for s := range steps {
		got = append(got, s)
	}
	if strings.Join(got, ", ") != "drained, broker closed" {
		t.Errorf("got %v", got)
	}
	if _, err := net.Dial("tcp", r.address); err == nil {
		t.Error("still listening")
	}
}

// golang/go#17721: Shutdown of net/http knows nothing of sockets. Here they end, with a last event, and what was
// being sent is answered.
func TestStop_AnswersWhatIsInFlightAndClosesSockets(t *testing.T) {
	const sockets, sends = 500, 50
	r := start(t, nil)
	room := r.room()
	codes := make(chan websocket.StatusCode, sockets)
	last := make(chan string, sockets)
	for range sockets {
		c := r.socket(room)
		go func() {
			var previous string
			for {
				_, b, err := c.Read(context.Background())
				if err != nil {
					codes <- websocket.CloseStatus(err)
					last <- previous
					return
				}
				if strings.Contains(string(b), `"next"`) {
					previous = string(b)
				}
			}
		}()
	}
	hold := make(chan struct{})
	r.home.Inject(domaintest.Fault{Op: domaintest.OpSend, Wait: hold})
	answers := make(chan string, sends)
	before := r.home.passed.Load()
	for n := range sends {
		go func() {
			_, body := r.ask(sendMessage, map[string]any{"room": room, "n": fmt.Sprint(n)})
			answers <- body
		}()
	}
	for r.home.passed.Load() < before+sends {
		time.Sleep(time.Millisecond)
	}
	r.home.drain = func() { close(hold) }
	began := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > r.budget {
		t.Errorf("took %s", took)
	}
	for range sends {
		if body := <-answers; !strings.Contains(body, "SHARD_NOT_OWNED") && !strings.Contains(body, `"serial"`) {
			t.Errorf("a send got %s", body)
		}
	}
	for range sockets {
		if event := <-last; !strings.Contains(event, "SHARD_NOT_OWNED") {
			t.Errorf("the last event was %s", event)
		}
		if code := <-codes; code != websocket.StatusGoingAway {
			t.Errorf("a socket ended with %d", code)
		}
	}
}

func TestStop_DoesNotWaitForSocketsThatDoNotAnswer(t *testing.T) {
	r := start(t, nil)
	_ = r.socket(r.room()) // never read again: its close frame is not answered
	began := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestStop_GivesUpWithinItsBudgetAndSaysWhat(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	r := start(t, func(c *config.Config, h *memoryHome, _ *instance) {
		c.ShutdownTimeout = 2 * time.Second
		h.drain = func() { <-release }
	})
	r.get("/healthz")
	began := time.Now()
	err := r.stop()
	if took := time.Since(began); took > 2*time.Second+grace {
		t.Errorf("took %s", took)
	}
	const want = "lock the gate, drain, flush and leave the group"
	if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(r.log.String(), `abandoned="`+want) {
		t.Errorf("got %v\n%s", err, r.log)
	}
}

func TestStop_ASecondSignalExitsAtOnce(t *testing.T) {
	release := make(chan struct{})
	draining := make(chan struct{})
	r := start(t, func(_ *config.Config, h *memoryHome, _ *instance) {
		h.drain = func() { close(draining); <-release }
	})
	r.get("/healthz")
	r.signals <- os.Interrupt
	<-draining
	for code := -1; code < 0; {
		select {
		case r.signals <- os.Interrupt: // the first ones are taken for the same
			time.Sleep(10 * time.Millisecond)
		case code = <-r.exited:
			if code != exitFault {
				t.Errorf("code %d", code)
			}
		}
	}
	close(release) // a test goes on where a program ends
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
}

func TestRun_AFaultOfTheHomeStopsInOrder(t *testing.T) {
	r := start(t, nil)
	r.get("/healthz")
	fault := errors.New("the topic is compacted")
	r.home.fault <- fault
	if err := <-r.ended; !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
	<-r.home.closed

	r = start(t, nil)
	r.home.fault <- nil
	if err := <-r.ended; !errors.Is(err, errEndedByItself) {
		t.Errorf("got %v", err)
	}
}

func TestReadiness_NamesEachShardThatIsNotOpen(t *testing.T) {
	r := start(t, nil)
	r.home.Load(2, 1, 9)
	r.home.Lock(3)
	status, body := r.get("/readyz")
	var answer struct {
		Reasons []struct {
			Shard         *domain.ShardID
			State, Reason string
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", status, body)
	}
	var got []string
	for _, reason := range answer.Reasons {
		got = append(got, fmt.Sprint(*reason.Shard, " ", reason.State))
	}
	if strings.Join(got, ", ") != "2 LOADING, 3 LOCKED" {
		t.Errorf("got %s", body)
	}
	r.home.OpenAll()
	if status, body := r.get("/readyz"); status != http.StatusOK || !strings.Contains(body, `"reasons":[]`) {
		t.Errorf("%d %s", status, body)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// 99designs/gqlgen#3248: what a page of another site can send without asking must change nothing.
func TestWaysIn_ForeignPagesAndOddRequestsChangeNothing(t *testing.T) {
	r := start(t, nil)
	create := `mutation { createChatRoom(input: {name: "forged"}) { __typename } }`
	query := "/graphql?query=" + strings.NewReplacer(" ", "%20", "{", "%7B", "}", "%7D", `"`, "%22").Replace(create)
	body, _ := json.Marshal(map[string]string{"query": create})
	for _, tc := range []struct {
		why, method, path, contentType, origin, body string
	}{
		{"a mutation by GET", "GET", query, "", "", ""},
		{"a mutation as text", "POST", "/graphql", "text/plain", "", string(body)},
		{"a mutation without a type", "POST", "/graphql", "", "", string(body)},
		{"a mutation as a form", "POST", "/graphql", "application/x-www-form-urlencoded", "", "query=" + create},
		{"a mutation in a multipart form", "POST", "/graphql", "multipart/form-data; boundary=x", "", "--x\r\nContent-Disposition: form-data; name=\"operations\"\r\n\r\n" + string(body) + "\r\n--x--\r\n"},
		{"a mutation by a foreign page", "POST", "/graphql", "application/json", "https://evil.example", string(body)},
		{"a mutation by a page without origin", "POST", "/graphql", "application/json", "null", string(body)},
		{"a mutation by PUT", "PUT", "/graphql", "application/json", "", string(body)},
		{"half an object", "POST", "/graphql", "application/json", "", string(body[:len(body)-2])},
		{"nothing", "POST", "/graphql", "application/json", "", ""},
	} {
		req, err := http.NewRequest(tc.method, "http://"+r.address+tc.path, strings.NewReader(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": tc.contentType, "Origin": tc.origin} {
			if value != "" {
				req.Header.Set(name, value)
			}
		}
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode < 400 {
			t.Errorf("%s: %d %s", tc.why, answer.StatusCode, text)
		}
	}
	if _, got := r.ask(`{ chatRooms { edges { node { name } } } }`, nil); !strings.Contains(got, `"edges":[]`) {
		t.Errorf("a room was created: %s", got)
	}
	for origin, allowed := range map[string]bool{"https://evil.example": false, "https://app.example": true, "http://" + r.address: true} {
		c, _, err := websocket.Dial(t.Context(), "ws://"+r.address+"/graphql", &websocket.DialOptions{
			Subprotocols: []string{"graphql-transport-ws"}, HTTPHeader: http.Header{"Origin": {origin}},
		})
		if (err == nil) != allowed {
			t.Errorf("a socket from %s: %v", origin, err)
		}
		if err == nil {
			_ = c.CloseNow()
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// Attacks on documents through the whole program, in the 64 KiB that it reads: what is refused is answered in few words, and nothing is executed.
func TestWaysIn_ExpensiveDocumentsAreRefusedCheaply(t *testing.T) {
	r := start(t, nil)
	refused := 0
	for why, document := range limitstest.Attacks() {
		status, body := r.ask(document, nil)
		switch {
		case strings.Contains(body, `"data":`):
			continue // allowed: TestHandler_AttacksAreRefusedCheaply says which
		case status == http.StatusRequestEntityTooLarge || strings.Contains(body, "BAD_REQUEST"):
			refused++
		default:
			t.Errorf("%s: %d %.200s", why, status, body)
		}
		if len(body) > limitstest.MaxAnswer {
			t.Errorf("%s: the answer has %d bytes", why, len(body))
		}
	}
	if refused < 30 {
		t.Errorf("only %d are refused", refused)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

func TestPage_CanBeTurnedOff(t *testing.T) {
	for _, on := range []bool{true, false} {
		r := start(t, func(c *config.Config, _ *memoryHome, _ *instance) {
			c.GraphiQL, c.Introspection = on, on
		})
		status, body := r.get("/")
		if (status == http.StatusOK) != on {
			t.Errorf("on %v: %d %.80s", on, status, body)
		}
		_, body = r.ask(`{__schema {queryType {name}}}`, nil)
		if strings.Contains(body, `"Query"`) != on {
			t.Errorf("introspection on %v: %s", on, body)
		}
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestWaysIn_LargeOrOddOnesAreRefusedWithoutBeingHeld(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(make([]byte, 10<<20))
	_ = z.Close()
	endless := readerFunc(func(p []byte) (int, error) { clear(p); return len(p), nil })
	started := start(t, nil)
	sized := func(n int) io.Reader { return strings.NewReader(fmt.Sprintf("%*s", -n, `{"query":"{__typename}"}`)) }
	for _, tc := range []struct {
		why    string
		body   io.Reader
		length int64 // -1: chunked
		header string
		want   int
	}{
		{"the largest", sized(64 << 10), 64 << 10, "", 200},
		{"the largest in chunks", sized(64 << 10), -1, "", 200},
		{"one byte more", sized(64<<10 + 1), 64<<10 + 1, "", 413},
		{"one byte more in chunks", sized(64<<10 + 1), -1, "", 413},
		{"64 MB", io.LimitReader(endless, 64<<20), 64 << 20, "", 413},
		{"chunks without end", io.LimitReader(endless, 1<<40), -1, "", 413},
		{"something that unfolds", bytes.NewReader(zipped.Bytes()), int64(zipped.Len()), "gzip", 415},
		{"none", nil, 0, "", 400},
	} {
		t.Run(tc.why, func(t *testing.T) {
			r, err := http.NewRequest(http.MethodPost, "http://"+started.address+"/graphql", tc.body)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = tc.length
			r.Header.Set("Content-Type", "application/json")
			if tc.header != "" {
				r.Header.Set("Content-Encoding", tc.header)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				if tc.want == 413 && tc.length != 64<<10+1 {
					return // closed while the client was still sending
				}
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != tc.want {
				t.Fatalf("got %d %s, want %d", answer.StatusCode, body, tc.want)
			}
			if tc.want != 200 {
				var shape struct {
					Errors []struct {
						Message    string
						Extensions struct{ Code string }
					}
				}
				if json.Unmarshal(body, &shape) != nil || len(shape.Errors) != 1 || shape.Errors[0].Extensions.Code != "BAD_REQUEST" {
					t.Errorf("not the shape of a GraphQL error: %s", body)
				}
			}
		})
	}
	if err := started.stop(); err != nil {
		t.Error(err)
	}
}

// A client that sends its whole body before it reads learns what was wrong with it, and may ask again on the same
// connection. It used to meet a connection that was reset.
func TestWaysIn_WhoSendsTooMuchReadsWhy(t *testing.T) {
	started := start(t, nil)
	const large = 1<<20 - 1
	for _, tc := range []struct{ name, head, end string }{
		{"declared", fmt.Sprintf("Content-Length: %d\r\n\r\n", large), ""},
		{"chunked", fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", large), "\r\n0\r\n\r\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := net.Dial("tcp", started.address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			request := "POST /graphql HTTP/1.1\r\nHost: " + started.address + "\r\nContent-Type: application/json\r\n" + tc.head +
				strings.Repeat(" ", large) + tc.end
			read := bufio.NewReader(c)
			for range 2 {
				if _, err := io.WriteString(c, request); err != nil {
					t.Fatalf("while sending: %v", err)
				}
				answer, err := http.ReadResponse(read, nil)
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(answer.Body)
				answer.Body.Close()
				if err != nil || answer.StatusCode != 413 || !strings.Contains(string(text), "larger than 65536 bytes") || answer.Close {
					t.Errorf("%d %s %v, close %v", answer.StatusCode, text, err, answer.Close)
				}
			}
		})
	}
	t.Run("not sent before it is asked for", func(t *testing.T) {
		c, err := net.Dial("tcp", started.address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = fmt.Fprintf(c, "POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", large)
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != 413 {
			t.Fatalf("%+v %v: nobody should be asked for what is refused", answer, err)
		}
		answer.Body.Close()
	})
	if err := started.stop(); err != nil {
		t.Error(err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
