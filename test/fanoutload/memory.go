package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/graphqlhttp"
	"github.com/chathome/chathome/server/ws"
)

// executions counts for /stats.
type executions struct{ n, pending, caughtUp atomic.Int64 }

func (e *executions) Executed()                { e.n.Add(1) }
func (e *executions) Delivered(_, pending int) { e.pending.Add(int64(pending)) }
func (e *executions) Cut()                     {}
func (e *executions) CaughtUp(domain.Serial)   { e.caughtUp.Add(1) }

// serveMemory serves chathome's API over a home in memory: what is left is the cost of the API itself.
func serveMemory(addr string) error {
	log := slog.Default()
	home := domaintest.New(domaintest.Config{Shards: 1})
	var seen executions
	sockets, err := ws.New(ws.Config{Hub: fanout.New(fanout.Config{Observer: &seen}), Log: log})
	if err != nil {
		return fmt.Errorf("sockets: %w", err)
	}
	present := graph.NewErrorPresenter(log)
	handler, err := graphqlhttp.New(graphqlhttp.Config{
		Schema: graph.New(home), Present: present, Recover: graph.Recover, Extensions: graph.Extensions(present),
		Transports: []graphql.Transport{sockets}, Log: log,
	})
	if err != nil {
		return fmt.Errorf("handler: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/graphql", handler)
	mux.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_ = json.NewEncoder(w).Encode(stats{
			Heap: m.HeapInuse, Stack: m.StackInuse, Goroutines: runtime.NumGoroutine(),
			Executions: seen.n.Load(), Pending: seen.pending.Load(), CaughtUp: seen.caughtUp.Load(),
		})
	})
	if err := http.ListenAndServe(addr, mux); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// stats of a server over a home in memory, after a collection.
type stats struct {
	Heap, Stack                   uint64
	Goroutines                    int
	Executions, Pending, CaughtUp int64
}

func (t *target) readStats() (s stats) {
	if !t.stats {
		return s
	}
	r, err := http.Get("http://" + t.addr + "/stats")
	if err != nil {
		return s
	}
	defer func() { _ = r.Body.Close() }()
	_ = json.NewDecoder(r.Body).Decode(&s)
	return s
}
