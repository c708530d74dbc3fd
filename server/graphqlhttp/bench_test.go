package graphqlhttp_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/graphqlhttp"
)

// contest is chathome's handler and gqlgen's own over one home: the same schema and extensions, its parsed documents
// in its own cache. Ours has its limits on.
func contest(b *testing.B) (servers []server, bodies []body) {
	b.Helper()
	home := domaintest.New(domaintest.Config{})
	room := home.AddRoomOn(0, "bench")
	home.PostN(room.ID, 100)
	const (
		send = `{"query":"mutation Send($input: SendMessageInput!) { sendMessage(input: $input) { __typename ... on SendMessageSuccess { duplicate message { serial sentAt } } ... on UserError { reason } } }","variables":{"input":{"chatRoomId":"%s","user":"alice","clientId":"b%d","text":"Hello, this is a message of a usual length, as people write them."}}}`
		page = `{"query":"query List($room: ID!) { chatRoom(id: $room) { name messages(first: 50) { edges { cursor node { id user text serial sentAt } } pageInfo { hasPreviousPage startCursor } } } }","variables":{"room":"%s"}}`
	)
	log := slog.New(slog.DiscardHandler)
	theirs := handler.New(graph.New(home))
	theirs.AddTransport(transport.POST{})
	theirs.SetQueryCache(lru.New[*ast.QueryDocument](1000))
	graph.Configure(theirs, log)
	var next atomic.Int64
	return []server{{"ours", newHandlerOver(b, home)}, {"gqlgen", theirs}}, []body{
		{"typename", func() string { return typename }},
		{"send", func() string { return fmt.Sprintf(send, room.ID, next.Add(1)) }},
		{"page", func() string { return fmt.Sprintf(page, room.ID) }},
	}
}

type server struct {
	name string
	http.Handler
}

type body struct {
	name string
	make func() string
}

// BenchmarkPOST is what a request costs without a network.
func BenchmarkPOST(b *testing.B) {
	servers, bodies := contest(b)
	for _, body := range bodies {
		for _, h := range servers {
			b.Run(body.name+"/"+h.name, func(b *testing.B) {
				b.ReportAllocs()
				defer reportCPU(b)()
				var w discard
				for b.Loop() {
					r, _ := http.NewRequest(http.MethodPost, "/graphql", strings.NewReader(body.make()))
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Accept", "application/json")
					w.header = http.Header{}
					h.ServeHTTP(&w, r)
				}
				if w.bytes == 0 {
					b.Fatal("no answer")
				}
			})
		}
	}
}

// reportCPU tells the processor time of an operation, garbage collection included: on a machine with other work it
// says more than the clock.
func reportCPU(b *testing.B) func() {
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op") }
}

type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(b []byte) (int, error) { d.bytes += len(b); return len(b), nil }

func newHandlerOver(b *testing.B, home *domaintest.Home) http.Handler {
	return newHandler(b, func(c *graphqlhttp.Config) { c.Schema = graph.New(home) })
}

// BenchmarkLoopback is the same over connections that stay open, with requests/s and the 99th percentile. The
// allocations are the client's too, which are the same for both.
func BenchmarkLoopback(b *testing.B) {
	servers, bodies := contest(b)
	for _, body := range bodies {
		for _, h := range servers {
			b.Run(body.name+"/"+h.name, func(b *testing.B) { loopback(b, h, body) })
		}
	}
}

func loopback(b *testing.B, h http.Handler, body body) {
	web := httptest.NewServer(h)
	defer web.Close()
	var mu sync.Mutex
	var took []time.Duration
	b.ReportAllocs()
	defer reportCPU(b)()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", web.Listener.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		answers := bufio.NewReader(conn)
		var mine []time.Duration
		for pb.Next() {
			text := body.make()
			start := time.Now()
			_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			mine = append(mine, time.Since(start))
		}
		mu.Lock()
		defer mu.Unlock()
		took = append(took, mine...)
	})
	slices.Sort(took)
	b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "req/s")
	if len(took) > 0 {
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	}
}
