package graphqlhttp_test

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
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

// contestants are chathome's handler and gqlgen's own, each over a home of its own: the same schema and extensions, documents in
// a cache. What ours does besides: limits on body and document, a deadline, text that must be Unicode, Accept with qualities,
// authentication, and headers that keep answers from being stored or guessed at.
var contestants = []struct {
	name string
	over func(testing.TB, *domaintest.Home) http.Handler
}{
	{"ours", func(b testing.TB, home *domaintest.Home) http.Handler {
		return newHandler(b, func(c *graphqlhttp.Config) { c.Schema = graph.New(home) })
	}},
	{"gqlgen", func(_ testing.TB, home *domaintest.Home) http.Handler {
		theirs := handler.New(graph.New(home))
		theirs.AddTransport(transport.POST{})
		theirs.SetQueryCache(lru.New[*ast.QueryDocument](1000))
		graph.Configure(theirs, slog.New(slog.DiscardHandler))
		return theirs
	}},
}

// bodies of requests for a room: the least there is, a message sent, a page of fifty.
var bodies = []struct {
	name string
	of   func(room string, n int64) string
}{
	{"typename", func(string, int64) string { return typename }},
	{"send", func(room string, n int64) string {
		return fmt.Sprintf(`{"query":"mutation Send($input: SendMessageInput!) { sendMessage(input: $input) { __typename ... on SendMessageSuccess { duplicate message { serial sentAt } } ... on UserError { reason } } }","variables":{"input":{"chatRoomId":"%s","user":"alice","clientId":"b%d","text":"Hello, this is a message of a usual length, as people write them."}}}`, room, n)
	}},
	{"page", func(room string, _ int64) string {
		return fmt.Sprintf(`{"query":"query List($room: ID!) { chatRoom(id: $room) { name messages(first: 50) { edges { cursor node { id user text serial sentAt } } pageInfo { hasPreviousPage startCursor } } } }","variables":{"room":"%s"}}`, room)
	}},
}

// contest is one contestant with one kind of request.
type contest struct {
	http.Handler
	next func() string // the next body; safe for concurrent use
}

func contests(b testing.TB, body, contestant int) contest {
	b.Helper()
	home := domaintest.New(domaintest.Config{})
	room := home.AddRoomOn(0, "bench")
	home.PostN(room.ID, 100)
	id, n := room.ID.String(), new(atomic.Int64)
	return contest{contestants[contestant].over(b, home), func() string { return bodies[body].of(id, n.Add(1)) }}
}

// each runs do for each kind of request and each contestant, the two of them beside each other.
func each(b *testing.B, do func(*testing.B, contest)) {
	for i, body := range bodies {
		for k, who := range contestants {
			b.Run(body.name+"/"+who.name, func(b *testing.B) {
				c := contests(b, i, k)
				runtime.GC() // what others left behind
				b.ReportAllocs()
				b.ResetTimer()
				defer reportCPU(b)()
				do(b, c)
			})
		}
	}
}

// BenchmarkPOST is what a request costs without a network.
func BenchmarkPOST(b *testing.B) {
	each(b, func(b *testing.B, c contest) {
		for b.Loop() {
			if c.post() == 0 {
				b.Fatal("no answer")
			}
		}
	})
}

// post returns the number of bytes of the answer.
func (c contest) post() int {
	r, _ := http.NewRequest(http.MethodPost, "/graphql", strings.NewReader(c.next()))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	w := discard{header: http.Header{}}
	c.ServeHTTP(&w, r)
	return w.bytes
}

func TestHandler_AllocatesNoMoreThanGqlgensOwn(t *testing.T) {
	for i, body := range bodies {
		var allocations [2]float64
		for k := range contestants {
			c := contests(t, i, k)
			allocations[k] = testing.AllocsPerRun(200, func() { c.post() })
		}
		if ours, theirs := allocations[0], allocations[1]; ours > theirs {
			t.Errorf("%s: %v allocations, gqlgen's own %v", body.name, ours, theirs)
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

// BenchmarkLoopback is the same over connections that stay open, with requests/s and the 99th percentile. The client allocates
// one string for each request.
func BenchmarkLoopback(b *testing.B) { each(b, loopback) }

func loopback(b *testing.B, c contest) {
	web := httptest.NewServer(c)
	defer web.Close()
	var mu sync.Mutex
	var took []time.Duration
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("tcp", web.Listener.Addr().String())
		if err != nil {
			b.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		answers, request := bufio.NewReaderSize(conn, 64<<10), []byte(nil)
		var mine []time.Duration
		for pb.Next() {
			text := c.next()
			start := time.Now()
			request = append(request[:0], "POST / HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nContent-Type: application/json\r\nContent-Length: "...)
			request = append(strconv.AppendInt(request, int64(len(text)), 10), "\r\n\r\n"...)
			if _, err = conn.Write(append(request, text...)); err == nil {
				err = skipAnswer(answers)
			}
			if err != nil {
				b.Error(err)
				return
			}
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

// skipAnswer reads one answer of 200 and allocates nothing, so that it is the same work for each contestant.
func skipAnswer(r *bufio.Reader) error {
	length, line := 0, []byte(nil)
	for first := true; first || len(line) > 2; first = false {
		var err error
		if line, err = r.ReadSlice('\n'); err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
			return fmt.Errorf("answered %q", line)
		}
		switch name, value, _ := bytes.Cut(line, []byte(": ")); {
		case bytes.EqualFold(name, []byte("Content-Length")):
			length = number(value, 10)
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = -1 // in chunks
		}
	}
	if length >= 0 {
		_, err := r.Discard(length)
		return err
	}
	for length != 0 {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		length = number(line, 16)
		if _, err := r.Discard(length + 2); err != nil { // with the end of the line, also behind the last
			return err
		}
	}
	return nil
}

// number reads digits up to the first byte that is none.
func number(text []byte, base int) (n int) {
	for _, c := range text {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 {
			break
		}
		n = n*base + digit
	}
	return n
}
