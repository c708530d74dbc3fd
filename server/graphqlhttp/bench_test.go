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

// BenchmarkPOST compares with gqlgen's own transport in one run: the same schema and extensions, its parsed
// documents in its own cache. Ours has its limits on.
func BenchmarkPOST(b *testing.B) {
	home := domaintest.New(domaintest.Config{})
	room := home.DrawChatRoomID()
	if _, _, err := home.CreateChatRoom(b.Context(), room, "bench"); err != nil {
		b.Fatal(err)
	}
	const send = `{"query":"mutation Send($input: SendMessageInput!) { sendMessage(input: $input) { __typename ... on SendMessageSuccess { duplicate message { serial sentAt } } ... on UserError { reason } } }","variables":{"input":{"chatRoomId":"%s","user":"alice","clientId":"%d","text":"Hello, this is a message of a usual length, as people write them."}}}`
	const list = `{"query":"query List($room: ID!) { chatRoom(id: $room) { name messages(last: 50) { edges { cursor node { id user text serial sentAt } } pageInfo { hasPreviousPage startCursor } } } }","variables":{"room":"%s"}}`
	var next atomic.Int64
	bodies := []struct {
		name string
		make func() string
	}{
		{"typename", func() string { return typename }},
		{"send", func() string { return fmt.Sprintf(send, room, next.Add(1)) }},
		{"page", func() string { return fmt.Sprintf(list, room) }},
	}
	log := slog.New(slog.DiscardHandler)
	theirs := handler.New(graph.New(home))
	theirs.AddTransport(transport.POST{})
	theirs.SetQueryCache(lru.New[*ast.QueryDocument](1000))
	graph.Configure(theirs, log)
	servers := []struct {
		name string
		http.Handler
	}{{"ours", newHandlerOver(b, home)}, {"gqlgen", theirs}}
	for _, body := range bodies {
		for _, h := range servers {
			b.Run(body.name+"/"+h.name, func(b *testing.B) {
				b.ReportAllocs()
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

// BenchmarkLoopback is the same over real connections, with requests/s and the 99th percentile.
func BenchmarkLoopback(b *testing.B) {
	home := domaintest.New(domaintest.Config{})
	log := slog.New(slog.DiscardHandler)
	theirs := handler.New(graph.New(home))
	theirs.AddTransport(transport.POST{})
	theirs.SetQueryCache(lru.New[*ast.QueryDocument](1000))
	graph.Configure(theirs, log)
	const body = `{"query":"query($n: Int) { chatRooms(first: $n) { edges { cursor } pageInfo { hasNextPage } } instance { id url } }","variables":{"n":10}}`
	request := fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for _, h := range []struct {
		name string
		http.Handler
	}{{"ours", newHandlerOver(b, home)}, {"gqlgen", theirs}} {
		b.Run(h.name, func(b *testing.B) {
			web := httptest.NewServer(h)
			defer web.Close()
			var mu sync.Mutex
			var took []time.Duration
			b.ReportAllocs()
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
					start := time.Now()
					_, _ = io.WriteString(conn, request)
					resp, err := http.ReadResponse(answers, nil)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					mine = append(mine, time.Since(start))
				}
				mu.Lock()
				took = append(took, mine...)
				mu.Unlock()
			})
			slices.Sort(took)
			b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "req/s")
			if len(took) > 0 {
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			}
		})
	}
}
