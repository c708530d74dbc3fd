//go:build inspect

package main

import (
	"encoding/json"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof"
	"os"
	"runtime"
	"runtime/metrics"
)

// inspect lets a harness (test/hostile) look inside, on a Unix socket that the environment names: profiles, and
// what the process holds.
func inspect() {
	path := os.Getenv("CHATHOME_INSPECT")
	if path == "" {
		return
	}
	http.HandleFunc("/held", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("gc") {
			runtime.GC()
		}
		samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
		metrics.Read(samples) // does not stop the world
		_ = json.NewEncoder(w).Encode(map[string]uint64{
			"goroutines": uint64(runtime.NumGoroutine()),
			"heap":       samples[0].Value.Uint64(),
			"stacks":     samples[1].Value.Uint64(),
		})
	})
	l, err := net.Listen("unix", path)
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(l, nil)) }()
}
