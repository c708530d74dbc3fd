package sse_test

import (
	"bufio"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/sse"
)

type counter struct{ executed, delivered, pending atomic.Int64 }

func (c *counter) Executed() { c.executed.Add(1) }
func (c *counter) Delivered(n, pending int) {
	c.delivered.Add(int64(n))
	c.pending.Add(int64(pending))
}
func (c *counter) CaughtUp(domain.Serial) {}
func (c *counter) Cut()                   {}

func sharing(c *counter) *fanout.Hub {
	return fanout.New(fanout.Config{Observer: c, Classify: func(f *ast.Field) fanout.Class {
		if graph.Immutable(f) {
			return fanout.Immutable
		}
		return fanout.Unshareable
	}})
}

func TestStream_OneEventServesAllWhoWantIt(t *testing.T) {
	each(t, func(t *testing.T, protocol string) {
		var count counter
		s := serve(t, protocol, sse.Config{Hub: sharing(&count)})
		s.send(5)
		// Some begin at the start, some resume behind an event: all stand at one position in the end.
		first := s.open(follow, nil)
		_, e := first.until(5)
		clients := []*client{first}
		for range 25 {
			c := s.open(follow, nil)
			c.until(5)
			resumed := s.open(follow, map[string]any{"last": 2}, "Last-Event-ID", e.id)
			resumed.must()
			clients = append(clients, c, resumed)
		}
		before := count.executed.Load()
		const events = 20
		for i := range events {
			s.send(1)
			var all sync.WaitGroup
			for _, c := range clients {
				all.Go(func() {
					if got, _ := c.until(6 + i); len(got) != 1 {
						t.Errorf("%d messages in one event", len(got))
					}
				})
			}
			all.Wait()
		}
		// A reader that is a moment late may need an event of its own, but mostly there is one for all.
		if got := count.executed.Load() - before; got > 3*events {
			t.Errorf("%d executions for %d events to %d readers", got, events, len(clients))
		}
	})
}

// A reader that is slower than the messages come gets whole, larger events, over torn writes.
func TestStream_ASlowReaderCatchesUp(t *testing.T) {
	var count counter
	s := serve(t, "HTTP/1.1", sse.Config{Hub: sharing(&count), SendBuffer: 4096, WriteTimeout: 10 * time.Second})
	conn := s.dial("HTTP/1.1")
	defer func() { _ = conn.Close() }()
	resp, err := http.ReadResponse(bufio.NewReaderSize(slowly{conn}, 16), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, Response: resp, lines: bufio.NewReaderSize(resp.Body, 16)}
	c.must() // it stands at the front now, and stops reading
	for count.pending.Load() == 0 {
		if s.sent > 5000 {
			t.Fatal("every write went out at once to a client that does not read")
		}
		s.send(20)
		time.Sleep(time.Millisecond) // real: the kernel's buffers have to fill
	}
	s.send(500)
	got, _ := c.until(s.sent)
	wantSerials(t, got, 1, s.sent)
}

// slowly reads in small pieces: an event arrives in many.
type slowly struct{ io.Reader }

func (s slowly) Read(b []byte) (int, error) { return s.Reader.Read(b[:min(len(b), 700)]) }
