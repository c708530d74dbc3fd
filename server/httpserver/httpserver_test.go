package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/server/peers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts a server on a loopback socket and returns its address.
func serve(t *testing.T, change func(*Config)) (*Server, string) {
	t.Helper()
	cfg := Config{
		GraphQL: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "unread" {
				return
			}
			if _, err := io.ReadAll(r.Body); err != nil {
				w.WriteHeader(http.StatusRequestTimeout)
			}
		}),
		Ready:  func() []Reason { return nil },
		Limits: DefaultLimits(),
		Log:    slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	s := New(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		if err := <-served; err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return s, l.Addr().String()
}

// talk sends raw bytes and returns what comes back until the server closes or d is over.
func talk(t *testing.T, address, send string, d time.Duration) string {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, send); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(d))
	b, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection was held for %s", d)
	}
	return string(b)
}

func TestTimeouts_PeersThatSendSlowlyAreCut(t *testing.T) {
	_, address := serve(t, func(c *Config) {
		c.Limits.HeaderTimeout = 50 * time.Millisecond
		c.Limits.BodyTimeout = 50 * time.Millisecond
	})
	if got := talk(t, address, "GET /healthz HTTP/1.1\r\nHost: a\r\n", 5*time.Second); strings.Contains(got, "200") {
		t.Errorf("half a header: %q", got)
	}
	got := talk(t, address, "POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf", 5*time.Second)
	if !strings.HasPrefix(got, "HTTP/1.1 408") {
		t.Errorf("half a body: %q", got)
	}
	got = talk(t, address, "POST /graphql?unread HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf", 5*time.Second)
	if !strings.HasPrefix(got, "HTTP/1.1 200") {
		t.Errorf("half a body that nobody wants: %q", got)
	}
	got = talk(t, address, "GET /graphql?query="+strings.Repeat("a", 64<<10)+" HTTP/1.1\r\nHost: a\r\n\r\n", 5*time.Second)
	if !strings.HasPrefix(got, "HTTP/1.1 431") {
		t.Errorf("a query beyond all measure: %.80q", got)
	}
}

// net/http looks at the type of a body to see whether it was left unread, and then lets the client read the answer
// before it closes the connection.
func TestBodyDeadline_LeavesTheRequestAsItWas(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader("text"))
	before := r.Body
	bodyDeadline(time.Second, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Body == before {
			t.Error("the body has no deadline")
		}
	})).ServeHTTP(httptest.NewRecorder(), r)
	if r.Body != before {
		t.Errorf("the body is %T, net/http gave %T", r.Body, before)
	}
}

// Streams outlive every timeout while their peer reads (golang/go#16100); a peer that stops reading is cut.
func TestTimeouts_StreamsLiveAndDeadPeersAreCut(t *testing.T) {
	cut := make(chan error, 1)
	_, address := serve(t, func(c *Config) {
		c.Limits.HeaderTimeout = 50 * time.Millisecond
		c.Limits.BodyTimeout = 50 * time.Millisecond
		c.Limits.IdleTimeout = 50 * time.Millisecond
		c.Limits.WriteTimeout = 200 * time.Millisecond
		c.GraphQL = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			control := http.NewResponseController(w)
			if r.URL.RawQuery == "flood" {
				for block := make([]byte, 1<<20); ; {
					if _, err := w.Write(block); err != nil {
						cut <- err
						return
					}
				}
			}
			for i := range 3 {
				_, _ = fmt.Fprintf(w, "event %d\n", i)
				if err := control.Flush(); err != nil {
					t.Error(err)
				}
				select {
				case <-time.After(300 * time.Millisecond):
				case <-r.Context().Done():
					t.Error("cut while the peer was reading")
				}
			}
		})
	})
	answer, err := http.Post("http://"+address+"/graphql", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if b, err := io.ReadAll(answer.Body); err != nil || string(b) != "event 0\nevent 1\nevent 2\n" {
		t.Errorf("%q %v", b, err)
	}

	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET /graphql?flood HTTP/1.1\r\nHost: a\r\n\r\n")
	select {
	case <-cut:
	case <-time.After(20 * time.Second):
		t.Error("a peer that does not read holds its handler")
	}
}

// In HTTP/2 a deadline for writing is a timer on the stream (net/http): it must not run while a handler thinks.
func TestTimeouts_HandlersOfHTTP2MayThink(t *testing.T) {
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	_, address := serve(t, func(c *Config) {
		c.TLS = &tls.Config{Certificates: certificate.TLS.Certificates}
		c.Limits.WriteTimeout = 50 * time.Millisecond
		c.GraphQL = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for i := range 3 {
				time.Sleep(200 * time.Millisecond)
				_, _ = fmt.Fprintf(w, "part %d\n", i)
				if i == 1 {
					_ = http.NewResponseController(w).Flush()
				}
			}
		})
	})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get("https://" + address + "/graphql")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if b, err := io.ReadAll(answer.Body); err != nil || answer.ProtoMajor != 2 || string(b) != "part 0\npart 1\npart 2\n" {
		t.Errorf("%s: %q, %v", answer.Proto, b, err)
	}
}

// Connections that say nothing are bounded, a proxy's only altogether, and places come back.
func TestConnections_AreBounded(t *testing.T) {
	for why, tc := range map[string]struct {
		proxies peers.Proxies
		want    int
	}{
		"one address": {nil, 2},
		"a proxy":     {peers.Proxies{netip.MustParsePrefix("127.0.0.0/8")}, 3},
	} {
		_, address := serve(t, func(c *Config) {
			c.Limits.Connections, c.Limits.ConnectionsPerAddress = 3, 2
			c.Proxies = tc.proxies
		})
		var held []net.Conn
		let := func() bool {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
			_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
			_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
			_, err = c.Read(make([]byte, 1))
			return err == nil
		}
		for range tc.want {
			if !let() {
				t.Errorf("%s: refused after %d", why, len(held)-1)
			}
		}
		if let() {
			t.Errorf("%s: one more than %d", why, tc.want)
		}
		_ = held[0].Close()
		for deadline := time.Now().Add(20 * time.Second); !let(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: a place does not come back", why)
			}
		}
		for _, c := range held {
			_ = c.Close()
		}
	}
}

// On the only processor, whoever is in runs before one more connection is taken: a crowd waits in the kernel.
func TestConnections_ACrowdComesAfterThoseWhoAreIn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := newConnections(Limits{Connections: 1, ConnectionsPerAddress: 1}, nil)
	conn, other := net.Pipe()
	defer func() { _, _ = conn.Close(), other.Close() }()
	first := 0
	for range 10 { // the scheduler itself lets the last one go first now and then
		var ran atomic.Bool
		go ran.Store(true)
		c.changed(conn, http.StateNew)
		if ran.Load() {
			first++
		}
		c.changed(conn, http.StateClosed)
	}
	if first < 5 {
		t.Errorf("the next connection was taken first %d times of 10", 10-first)
	}
}

// One list and one result for every way in (99designs/gqlgen#2826).
func TestOrigins_OneResultForAllWaysIn(t *testing.T) {
	ways := map[string]func(*http.Request){
		"POST": func(r *http.Request) { r.Method = "POST" },
		"GET":  func(*http.Request) {},
		"SSE":  func(r *http.Request) { r.Header.Set("Accept", "text/event-stream") },
		"socket": func(r *http.Request) {
			r.Header.Set("Upgrade", "websocket")
			r.Header.Set("Connection", "Upgrade")
		},
		"preflight": func(r *http.Request) {
			r.Method = "OPTIONS"
			r.Header.Set("Access-Control-Request-Method", "POST")
		},
	}
	origins := Origins{Allowed: []string{"http://localhost:5173", "https://app.example"}, Advertised: "https://chat.example/base"}
	handler := origins.check(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	local := origins
	local.Local = true
	localHandler := local.check(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, tc := range []struct {
		why, origin, host string
		allowed, local    bool
	}{
		{"no browser", "", "h:8080", true, true},
		{"listed", "http://localhost:5173", "h:8080", true, true},
		{"listed, in other case", "HTTPS://App.Example", "h:8080", true, true},
		{"another port", "http://localhost:5174", "h:8080", false, false},
		{"another scheme", "http://app.example", "h:8080", false, false},
		{"a longer name", "http://localhost:5173.evil.example", "h:8080", false, false},
		{"a prefixed name", "https://evil-app.example", "h:8080", false, false},
		{"own", "http://127.0.0.1:8080", "127.0.0.1:8080", true, true},
		{"own by name", "http://localhost:8080", "localhost:8080", true, true},
		{"own by IPv6", "http://[::1]:8080", "[::1]:8080", true, true},
		{"own behind a proxy that ends TLS", "https://h", "h", true, false},
		{"the advertised one, whatever the host", "https://chat.example", "127.0.0.1:8080", true, true},
		{"a foreign name pointed here", "http://evil.example:8080", "evil.example:8080", true, false},
		{"null", "null", "null", false, false},
		{"nothing in it", "http://", "", false, false},
		{"no URL", "://", "h", false, false},
	} {
		for way, set := range ways {
			for _, side := range []struct {
				handler http.Handler
				allowed bool
			}{{handler, tc.allowed}, {localHandler, tc.local}} {
				r := httptest.NewRequest("GET", "/graphql", nil)
				r.Host = tc.host
				if tc.origin != "" {
					r.Header.Set("Origin", tc.origin)
				}
				set(r)
				w := httptest.NewRecorder()
				side.handler.ServeHTTP(w, r)
				if got := w.Code < 300; got != side.allowed {
					t.Errorf("%s by %s: %d, want allowed %v", tc.why, way, w.Code, side.allowed)
				}
				echo := w.Header().Get("Access-Control-Allow-Origin")
				if want := side.allowed && tc.origin != ""; (echo == tc.origin && echo != "") != want {
					t.Errorf("%s by %s: Access-Control-Allow-Origin %q", tc.why, way, echo)
				}
				if !strings.Contains(w.Header().Get("Vary"), "Origin") || w.Header().Get("Access-Control-Allow-Credentials") != "" {
					t.Errorf("%s by %s: headers %v", tc.why, way, w.Header())
				}
			}
		}
	}
	r := httptest.NewRequest("GET", "/graphql?query={x}", nil)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	if w.Code != http.StatusForbidden {
		t.Errorf("an image of another site: %d", w.Code)
	}
}

func TestRoutes_HealthReadinessAndHeaders(t *testing.T) {
	three := domain.ShardID(3)
	reasons := []Reason{{Shard: &three, State: "LOADING", Reason: "loading: offset 1 of 9"}}
	ready := false
	_, address := serve(t, func(c *Config) {
		c.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
		c.Ready = func() []Reason {
			if ready {
				return nil
			}
			return reasons
		}
	})
	for _, tc := range []struct {
		method, path string
		ready        bool
		status       int
		body         string
	}{
		{"GET", "/healthz", false, 200, `{"status":"ok"}`},
		{"GET", "/readyz", false, 503, `{"status":"not ready","reasons":[{"shard":3,"state":"LOADING","reason":"loading: offset 1 of 9"}]}`},
		{"GET", "/readyz", true, 200, `{"status":"ready","reasons":[]}`},
		{"HEAD", "/readyz", false, 503, ""},
		{"POST", "/readyz", true, 405, "Method Not Allowed"},
		{"GET", "/", true, 200, "page"},
		{"GET", "/nowhere", true, 200, "page"},
		{"POST", "/", true, 405, "Method Not Allowed"},
	} {
		ready = tc.ready
		r, _ := http.NewRequest(tc.method, "http://"+address+tc.path, nil)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != tc.status || strings.TrimSpace(string(body)) != tc.body {
			t.Errorf("%s %s: %d %s", tc.method, tc.path, answer.StatusCode, body)
		}
		for _, name := range []string{"X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy", "Content-Security-Policy"} {
			if answer.Header.Get(name) == "" {
				t.Errorf("%s %s: no %s", tc.method, tc.path, name)
			}
		}
	}
}

func TestShutdown_EndsStreamsAndLetsRequestsFinish(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s, address := serve(t, func(c *Config) {
		c.EndStreams = func(context.Context) error {
			once.Do(func() { close(release) }) // the request finishes only when streams are ended beside it
			return nil
		}
		c.GraphQL = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-release
			if r.Context().Err() == nil {
				_, _ = io.WriteString(w, "finished")
			}
		})
	})
	got := make(chan string, 1)
	go func() {
		answer, err := http.Get("http://" + address + "/graphql")
		if err != nil {
			got <- err.Error()
			return
		}
		defer answer.Body.Close()
		b, _ := io.ReadAll(answer.Body)
		got <- string(b)
	}()
	<-entered
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if body := <-got; body != "finished" {
		t.Errorf("the request got %q", body)
	}
}

func TestShutdown_ClosesWhatIsLeftAtItsDeadline(t *testing.T) {
	entered, gone := make(chan struct{}), make(chan struct{})
	s, address := serve(t, func(c *Config) {
		c.GraphQL = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done() // the connection was closed
			close(gone)
		})
	})
	go func() {
		if answer, err := http.Get("http://" + address + "/graphql"); err == nil {
			answer.Body.Close()
		}
	}()
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	<-gone
}
