package ws

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/server/peers"
)

// bigDrafts are n messages with texts of the given size.
func bigDrafts(from, n, size int) []domain.Draft {
	drafts := make([]domain.Draft, n)
	for i := range drafts {
		drafts[i] = domain.Draft{User: "w", ClientID: strconv.Itoa(from + i), Text: strings.Repeat("x", size)}
	}
	return drafts
}

// TestHostile_ClientsThatNeverReadButPong: each is cut, the memory for them is bounded, and the others have everything.
func TestHostile_ClientsThatNeverReadButPong(t *testing.T) {
	const stuck, healthy, events = 100, 5, 20
	s := newTestServer(t, tcp(t), Config{WriteTimeout: 3 * time.Second})
	var quiet sync.WaitGroup
	stop := make(chan struct{})
	for range stuck {
		c := s.dial(Subprotocol, nil)
		_ = c.Conn.(*net.TCPConn).SetReadBuffer(4096)
		c.send(`{"type":"connection_init"}`)
		c.want(`{"type":"connection_ack"}`)
		c.subscribe("s", s.room, `"last":0`)
		quiet.Add(1)
		go func() {
			defer quiet.Done()
			for {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
					if _, err := c.Write(maskedFrame(final|opText, []byte(`{"type":"pong"}`))); err != nil {
						return
					}
				}
			}
		}()
	}
	defer quiet.Wait()
	defer close(stop)
	readers := make([]*client, healthy)
	for i := range readers {
		readers[i] = s.ready()
		readers[i].subscribe("s", s.room, `"last":0`)
		readers[i].event("s")
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var wg sync.WaitGroup
	for _, c := range readers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for next := 1; next <= 8*events; {
				for _, e := range c.event("s").Data.Messages.Edges {
					if e.Node.Serial != strconv.Itoa(next) {
						t.Errorf("got serial %s, want %d", e.Node.Serial, next)
						return
					}
					next++
				}
			}
		}()
	}
	peak := uint64(0)
	for i := range events {
		s.home.Post(s.room.ID, bigDrafts(8*i, 8, 8000)...) // 64 KB an event
		time.Sleep(10 * time.Millisecond)
		runtime.ReadMemStats(&after)
		peak = max(peak, after.HeapInuse+after.StackInuse)
	}
	wg.Wait()
	// How long that takes exactly is TestWrite_ClientThatStopsReadingIsCutWithinTheDeadline's to say.
	eventually(t, "all that never read are cut", func() bool { return s.ends.of(EndSlow) == stuck })
	if grown := int64(peak) - int64(before.HeapInuse+before.StackInuse); grown > stuck*64<<10+16<<20 {
		t.Errorf("%d bytes for %d clients that do not read", grown, stuck)
	}
}

// TestHostile_SlowReaderCatchesUp: a client that reads little by little misses nothing, gets fewer and larger
// events, and frames that were torn are whole.
func TestHostile_SlowReaderCatchesUp(t *testing.T) {
	const messages = 2000
	s := newTestServer(t, tcp(t), Config{SendBuffer: 16 << 10})
	c := s.ready()
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(16 << 10)
	c.subscribe("s", s.room, `"last":0`)
	c.event("s")
	for i := range messages / 4 {
		s.home.Post(s.room.ID, bigDrafts(4*i, 4, 500)...)
	}
	events, next := 0, 1
	for ; next <= messages; events++ {
		if events < 30 {
			time.Sleep(2 * time.Millisecond)
		}
		for _, e := range c.event("s").Data.Messages.Edges {
			if e.Node.Serial != strconv.Itoa(next) {
				t.Fatalf("got serial %s, want %d", e.Node.Serial, next)
			}
			next++
		}
	}
	if s.ends.of("pending") == 0 {
		t.Error("no frame was torn: this test shows nothing")
	}
	if events >= messages/4 {
		t.Errorf("%d events for %d group commits: nothing was put together", events, messages/4)
	}
}

// TestHostile_EndsInAllWays: subscriptions end with complete, a close frame, FIN, RST and silence; nothing
// stays. goleak and the server's stop look at what is left.
func TestHostile_EndsInAllWays(t *testing.T) {
	s := newTestServer(t, tcp(t), Config{PingInterval: 200 * time.Millisecond})
	x, err := s.home.ChatRoom(t.Context(), s.room.Shard, s.room.ID)
	if err != nil {
		t.Fatal(err)
	}
	const each = 20
	var silent []*client
	for i := range 5 * each {
		c := s.ready()
		for k := range 3 {
			c.subscribe(strconv.Itoa(k), s.room, `"last":0`)
		}
		for range 3 {
			if m := c.message(); m.Type != typeNext {
				t.Fatalf("got %v", m)
			}
		}
		switch i % 5 {
		case 0:
			for k := range 3 {
				c.send(fmt.Sprintf(`{"id":"%d","type":"complete"}`, k))
			}
			c.send(`{"type":"ping"}`)
			c.want(`{"type":"pong"}`)
			_ = c.Close()
		case 1:
			c.frame(final|opClose, []byte{0x03, 0xe8})
			if got := c.next(); !strings.HasPrefix(got, "closed 1000") {
				t.Errorf("got %s", got)
			}
		case 2:
			_ = c.Conn.(*net.TCPConn).CloseWrite()
		case 3:
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		case 4:
			silent = append(silent, c)
		}
		if i%10 == 0 {
			s.home.PostN(s.room.ID, 1)
		}
	}
	_ = silent
	eventually(t, "all connections are gone", func() bool { return s.transport.Connections() == 0 })
	eventually(t, "nobody follows the room", func() bool { return watchers(x.Feed()) == 0 })
	if n := s.ends.of(EndSilent); n != each {
		t.Errorf("%d were silent, want %d: %v", n, each, s.ends.seen)
	}
}

func TestHostile_ConnectionInitInTheSamePacketAsTheRequest(t *testing.T) {
	s := newTestServer(t, tcp(t), Config{})
	early := maskedFrame(final|opText, []byte(`{"type":"connection_init"}`))
	early = append(early, maskedFrame(final|opText, []byte(subscribeMessage("s", s.room, `"last":0`)))...)
	early = append(early, maskedFrame(final|opText, []byte(`{"type":"ping","payload":{"a":"`+strings.Repeat("x", 2000)+`"}}`))...)
	c := s.dial(Subprotocol, early)
	c.want(`{"type":"connection_ack"}`)
	seen := map[string]bool{}
	for range 2 {
		seen[c.message().Type] = true
	}
	if !seen[typeNext] || !seen[typePong] {
		t.Errorf("got %v", seen)
	}
}

func TestHostile_UnmaskedFrameEndsTheConnection(t *testing.T) {
	s := newTestServer(t, tcp(t), Config{})
	c := s.ready()
	if _, err := c.Write(text([]byte(`{"type":"ping"}`))); err != nil {
		t.Fatal(err)
	}
	if got := c.next(); got != "gone" && !strings.HasPrefix(got, "closed 1002") {
		t.Errorf("got %s", got)
	}
}

func TestHostile_ManyOperationsThatAreAbandonedUnread(t *testing.T) {
	s := newTestServer(t, tcp(t), Config{WriteTimeout: 2 * time.Second, MaxOperations: 10, SendBuffer: 4096})
	s.home.Post(s.room.ID, bigDrafts(0, 50, 8000)...)
	c := s.ready()
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(4096)
	base := runtime.NumGoroutine()
	peak := 0
	for i := range 2000 {
		m := maskedFrame(final|opText, []byte(subscribeMessage(strconv.Itoa(i), s.room, "")))
		m = append(m, maskedFrame(final|opText, fmt.Appendf(nil, `{"id":"%d","type":"complete"}`, i))...)
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Write(m); err != nil {
			break
		}
		peak = max(peak, runtime.NumGoroutine()-base)
	}
	if peak > 100 {
		t.Errorf("%d goroutines for one client", peak)
	}
	eventually(t, "it is cut", func() bool { return s.transport.Connections() == 0 })
}

// TestHostile_UpgradesWithoutInit: all are closed with 4408.
func TestHostile_UpgradesWithoutInit(t *testing.T) {
	s := newTestServer(t, tcp(t), Config{InitTimeout: 300 * time.Millisecond})
	clients := make([]*client, 200)
	for i := range clients {
		clients[i] = s.dial(Subprotocol, nil)
	}
	for _, c := range clients {
		c.want("closed 4408 Connection initialisation timeout")
	}
	eventually(t, "all are gone", func() bool { return s.transport.Connections() == 0 })
}

func TestLimits_ConnectionsAreTurnedAwayWithACodeOnWhichClientsRetry(t *testing.T) {
	proxies, err := peers.ParseProxies([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	s := newTestServer(t, tcp(t), Config{MaxConnections: 4, MaxPerAddress: 2, Proxies: proxies})
	dial := func(from string) *client {
		c := s.dial(Subprotocol, nil, "X-Forwarded-For: 198.51.100.7, "+from)
		c.send(`{"type":"connection_init"}`)
		return c
	}
	const full = "closed 1013 Too many connections"
	var first *client
	for i := range 2 {
		c := dial("203.0.113.1")
		c.want(`{"type":"connection_ack"}`)
		if i == 0 {
			first = c
		}
	}
	dial("203.0.113.1").want(full)
	for range 2 {
		dial("203.0.113.2").want(`{"type":"connection_ack"}`)
	}
	dial("203.0.113.3").want(full)
	_ = first.Close()
	eventually(t, "there is room again", func() bool { return s.transport.cfg.Limiter.Held() == 3 })
	dial("203.0.113.3").want(`{"type":"connection_ack"}`)
}

// Operations of all connections of an address are bounded together; one over it is refused, and may come again.
func TestLimits_OperationsOfOneAddress(t *testing.T) {
	s := newTestServer(t, tcp(t), Config{Operations: peers.NewLimiter(0, 3), MaxOperations: 2})
	a, b := s.ready(), s.ready()
	a.subscribe("1", s.room, "")
	a.event("1")
	a.subscribe("2", s.room, "")
	a.event("2")
	b.subscribe("1", s.room, "")
	b.event("1")
	b.subscribe("2", s.room, "")
	const full = `{"id":"2","type":"error","payload":[{"message":"Too many operations at once. Nothing was executed. Try again in 1000 ms.","extensions":{"code":"OVERLOADED","retryAfterMs":1000}}]}`
	b.want(full)
	b.send(`{"id":"3","type":"subscribe","payload":{"query":"{__typename}"}}`)
	b.want(strings.Replace(full, `"2"`, `"3"`, 1))
	a.send(`{"id":"2","type":"complete"}`)
	eventually(t, "there is room again", func() bool { return s.transport.cfg.Operations.Held() == 2 })
	b.subscribe("2", s.room, "")
	b.event("2")
	_ = a.Close()
	eventually(t, "there is more room", func() bool { return s.transport.cfg.Operations.Held() == 2 })
	b.subscribe("1", s.room, "")
	b.want("closed 4409 Subscriber for 1 already exists")
	eventually(t, "all places came back", func() bool { return s.transport.cfg.Operations.Held() == 0 })
}

// An operation keeps its document: a large one counts for as many as it is worth, until it ends.
func TestLimits_LargeDocumentsCountMore(t *testing.T) {
	s := newTestServer(t, tcp(t), Config{Operations: peers.NewLimiter(0, 8)})
	c := s.ready()
	large := func(id string) string {
		return strings.Replace(subscribeMessage(id, s.room, ""), `"query":"`, `"query":"#`+strings.Repeat("x", 1000)+`\n`, 1)
	}
	c.send(large("1"))
	c.event("1")
	if n := s.transport.cfg.Operations.Held(); n < 5 {
		t.Errorf("it counts as %d", n)
	}
	c.send(large("2"))
	c.want(`{"id":"2","type":"error","payload":[{"message":"Too many operations at once. Nothing was executed. Try again in 1000 ms.","extensions":{"code":"OVERLOADED","retryAfterMs":1000}}]}`)
	c.send(`{"id":"1","type":"complete"}`)
	eventually(t, "all places came back", func() bool { return s.transport.cfg.Operations.Held() == 0 })
	c.send(large("2"))
	c.event("2")
}

func TestTLS_ServesAndCatchesUp(t *testing.T) {
	l := tls.NewListener(tcp(t), &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}})
	s := newTestServer(t, l, Config{WriteTimeout: 2 * time.Second})
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "wss://"+l.Addr().String()+"/graphql", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, Subprotocols: []string{Subprotocol},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	ws.SetReadLimit(-1)
	for _, m := range []string{`{"type":"connection_init"}`, subscribeMessage("s", s.room, `"last":0`)} {
		if err := ws.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := ws.Read(ctx); err != nil { // connection_ack
		t.Fatal(err)
	}
	if _, _, err := ws.Read(ctx); err != nil { // the first event
		t.Fatal(err)
	}
	const messages = 400
	go func() {
		for i := range messages / 4 {
			s.home.Post(s.room.ID, bigDrafts(4*i, 4, 2000)...)
		}
	}()
	seen := 0
	for seen < messages {
		_, b, err := ws.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		seen += strings.Count(string(b), `"serial"`)
	}
	if seen != messages {
		t.Errorf("%d messages, want %d", seen, messages)
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
