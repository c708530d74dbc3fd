package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/config"
	"github.com/chathome/chathome/server/peers"
)

// way is one of the ways in, as an attempt: what came back tells whether one was let in.
type way struct {
	name   string
	knock  func(t *testing.T, address string, header http.Header) (let bool, status int, got http.Header)
	browse bool // a browser reads what is answered only with Access-Control-Allow-Origin
}

// waysToTry are all of them. A socket counts as let in with its connection_ack.
func waysToTry() []way {
	const room = `{chatRooms{edges{node{id}}}}`
	stream := "subscription{chatRooms{endCursor}}"
	body := func(query string) string { b, _ := json.Marshal(map[string]string{"query": query}); return string(b) }
	return []way{
		{"POST", knock("POST", "/graphql", body(room), "Content-Type", "application/json"), true},
		{"GET", knock("GET", "/graphql?query="+url.QueryEscape(room), "", "Accept", "application/json"), true},
		{"stream by POST", knock("POST", "/graphql", body(stream), "Content-Type", "application/json", "Accept", "text/event-stream"), true},
		{"stream by GET", knock("GET", "/graphql?query="+url.QueryEscape(stream), "", "Accept", "text/event-stream"), true},
		{"socket", knockSocket, false},
	}
}

func knock(method, path, body string, headers ...string) func(*testing.T, string, http.Header) (bool, int, http.Header) {
	return func(t *testing.T, address string, more http.Header) (bool, int, http.Header) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = more.Clone()
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		defer answer.Body.Close()
		return answer.StatusCode < 300, answer.StatusCode, answer.Header
	}
}

func knockSocket(t *testing.T, address string, header http.Header) (bool, int, http.Header) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	r := httptest.NewRequest("GET", "/graphql", nil)
	r.Host, r.RequestURI = address, ""
	r.Header = header.Clone()
	for name, value := range map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "graphql-transport-ws"} {
		r.Header.Set(name, value)
	}
	if err := r.Write(c); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(c)
	answer, err := http.ReadResponse(br, r)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		return false, answer.StatusCode, answer.Header
	}
	hello := `{"type":"connection_init"}`
	frame := append([]byte{0x81, 0x80 | byte(len(hello)), 0, 0, 0, 0}, hello...) // masked with zeros
	if _, err := c.Write(frame); err != nil {
		t.Fatal(err)
	}
	head, err := br.Peek(1)
	return err == nil && head[0] == 0x81, answer.StatusCode, answer.Header // else a close frame
}

// 99designs/gqlgen#2826: one list and one result over every way in, a preflight among them.
func TestWaysIn_HaveOneListOfOrigins(t *testing.T) {
	r := start(t, func(cfg *config.Config, _ *memoryHome, _ *instance) {
		cfg.AllowedOrigins = []string{"http://localhost:5173", "https://app.example"}
	})
	preflight := way{"OPTIONS", knock("OPTIONS", "/graphql", "", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"), true}
	for origin, allowed := range map[string]bool{
		"":                                   true, // no browser
		"http://localhost:5173":              true,
		"https://app.example":                true,
		"http://" + r.address:                true,
		"https://app.example:8443":           false,
		"http://app.example":                 false,
		"http://localhost":                   false,
		"http://localhost:5173.evil.example": false,
		"https://evil-app.example":           false,
		"null":                               false,
	} {
		for _, w := range append(waysToTry(), preflight) {
			header := http.Header{}
			if origin != "" {
				header.Set("Origin", origin)
			}
			let, status, got := w.knock(t, r.address, header)
			if let != allowed {
				t.Errorf("%s from %q: %d, want allowed %v", w.name, origin, status, allowed)
			}
			if !allowed && status != http.StatusForbidden {
				t.Errorf("%s from %q: refused with %d", w.name, origin, status)
			}
			if echo := got.Get("Access-Control-Allow-Origin"); w.browse && allowed != (echo == origin) {
				t.Errorf("%s from %q: Access-Control-Allow-Origin is %q", w.name, origin, echo)
			}
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// behind serves the ways in that d describes.
func behind(t *testing.T, d doors) (address string) {
	t.Helper()
	d.log = slog.New(slog.DiscardHandler)
	ways, err := mount(graph.New(domaintest.New(domaintest.Config{})), d)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(ways)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := ways.shutdown(ctx); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	return web.Listener.Addr().String()
}

// One Authenticate is asked by all ways in; without one everybody comes in.
func TestWaysIn_HaveOneAuthenticate(t *testing.T) {
	guarded := behind(t, doors{authenticate: func(_ context.Context, h http.Header, _ json.RawMessage) (string, time.Time, error) {
		switch h.Get("Authorization") {
		case "right":
			return "alice", time.Now().Add(time.Hour), nil
		case "old":
			return "alice", time.Now().Add(-time.Second), nil
		}
		return "", time.Time{}, errors.New("no")
	}})
	open := behind(t, doors{})
	for _, w := range waysToTry() {
		for token, want := range map[string]bool{"right": true, "old": false, "wrong": false, "": false} {
			if let, status, _ := w.knock(t, guarded, http.Header{"Authorization": {token}}); let != want {
				t.Errorf("%s with %q: %d, want let in %v", w.name, token, status, want)
			}
		}
		if let, status, _ := w.knock(t, open, http.Header{}); !let {
			t.Errorf("%s: %d without an Authenticate", w.name, status)
		}
	}
}

// Sockets and event streams count together, for the client's address and not for its proxy's.
func TestWaysIn_HaveOneLimitForAnAddress(t *testing.T) {
	proxies, err := peers.ParseProxies([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	limiter := peers.NewLimiter(0, 1)
	address := behind(t, doors{proxies: proxies, followers: limiter})
	release, ok := limiter.Acquire(netip.MustParseAddr("203.0.113.1"))
	if !ok {
		t.Fatal("no place at all")
	}
	try := func(client string, socketsAndStreams bool) {
		t.Helper()
		for _, w := range waysToTry() {
			if limiter.Held() > 1 { // the last one is leaving
				for deadline := time.Now().Add(20 * time.Second); limiter.Held() > 1 && time.Now().Before(deadline); {
					time.Sleep(time.Millisecond)
				}
			}
			want := socketsAndStreams || w.name == "POST" || w.name == "GET"
			if let, status, _ := w.knock(t, address, http.Header{"X-Forwarded-For": {client}}); let != want {
				t.Errorf("%s from %s: %d, want let in %v", w.name, client, status, want)
			}
		}
	}
	try("203.0.113.1", false)
	try("203.0.113.2", true)
	try("203.0.113.1, 203.0.113.3", true) // whatever a client claims
	release()
}

// Automatic persisted queries as Apollo's and urql's clients speak them: by the hash alone, then with the text,
// then by the hash alone for ever. What one way in has learnt, all know.
func TestWaysIn_PersistedQueries(t *testing.T) {
	r := start(t, nil)
	request := func(query string, withText bool) string {
		sum := sha256.Sum256([]byte(query))
		m := map[string]any{"extensions": map[string]any{"persistedQuery": map[string]any{"version": 1, "sha256Hash": hex.EncodeToString(sum[:])}}}
		if withText {
			m["query"] = query
		}
		b, _ := json.Marshal(m)
		return string(b)
	}
	post := func(body, accept string) string {
		t.Helper()
		req, _ := http.NewRequest("POST", "http://"+r.address+"/graphql", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", accept)
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		b, _ := io.ReadAll(answer.Body)
		return fmt.Sprintf("%d %s", answer.StatusCode, b)
	}
	socket := func(body string) string {
		t.Helper()
		if !strings.Contains(body, `"query"`) { // graphql-transport-ws demands one, if only an empty one
			body = strings.Replace(body, "{", `{"query":"",`, 1)
		}
		c, _, err := websocket.Dial(t.Context(), "ws://"+r.address+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.CloseNow() }()
		var got []byte
		for _, m := range []string{`{"type":"connection_init"}`, `{"id":"1","type":"subscribe","payload":` + body + `}`} {
			if err := c.Write(t.Context(), websocket.MessageText, []byte(m)); err != nil {
				t.Fatal(err)
			}
			if _, got, err = c.Read(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return string(got)
	}
	const (
		unknown  = `{"errors":[{"message":"PersistedQueryNotFound","extensions":{"code":"PERSISTED_QUERY_NOT_FOUND"}}]}`
		both     = "application/graphql-response+json,application/json;q=0.9" // Apollo's, urql's
		query    = `{ instance { __typename } }`
		data     = `{"data":{"instance":{"__typename":"Instance"}}}`
		bySocket = `{ instance { __typename } } `
	)
	for _, step := range []struct{ why, got, want string }{
		{"unknown, old clients", post(request(query, false), "application/json"), "200 " + unknown},
		{"unknown", post(request(query, false), both), "400 " + unknown},
		{"unknown on a socket", socket(request(query, false)), `{"id":"1","type":"error","payload":[{"message":"PersistedQueryNotFound","extensions":{"code":"PERSISTED_QUERY_NOT_FOUND"}}]}`},
		{"with the text", post(request(query, true), both), "200 " + data},
		{"known", post(request(query, false), both), "200 " + data},
		{"known on a socket", socket(request(query, false)), `{"id":"1","type":"next","payload":` + data + `}`},
		{"with the text, on a socket", socket(request(bySocket, true)), `{"id":"1","type":"next","payload":` + data + `}`},
		{"known from a socket", post(request(bySocket, false), both), "200 " + data},
	} {
		if step.got != step.want {
			t.Errorf("%s:\ngot  %s\nwant %s", step.why, step.got, step.want)
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}
