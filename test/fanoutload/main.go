package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "memory-server" {
		exit(serveMemory(os.Args[2]))
	}
	exit(run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fanoutload:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type options struct {
	server, centrifugo string
	subscribers        int
	seconds, size      int
	herd               int
	only               string
}

func run() error {
	var o options
	flag.StringVar(&o.server, "server", "memory", "memory, or the chathome program to run with its embedded broker")
	flag.StringVar(&o.centrifugo, "centrifugo", "", "the centrifugo program to compare with; build: from the Go module registry; empty: none")
	flag.IntVar(&o.subscribers, "subscribers", 1000, "subscribers of the room")
	flag.IntVar(&o.seconds, "seconds", 5, "length of each phase")
	flag.IntVar(&o.size, "size", 200, "bytes of a message's text")
	flag.IntVar(&o.herd, "herd", 1000, "messages that were missed when everybody comes back; 0: leave that out")
	flag.StringVar(&o.only, "only", "", "phases whose name has this in it; herd and restart are two")
	flag.Parse()

	dir, err := os.MkdirTemp("", "fanoutload")
	if err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if o.server != "memory" && o.herd > 0 && strings.Contains("restart", o.only) {
		if err := restart(o, filepath.Join(dir, "data")); err != nil {
			return err
		}
	}
	if o.only == "restart" {
		return nil
	}
	t, err := startChathome(o.server, ":memory:")
	if err != nil {
		return err
	}
	rows, err := measure(t, o)
	if err != nil {
		return err
	}
	if o.centrifugo == "" || len(rows) == 0 {
		return nil
	}
	if o.centrifugo == "build" {
		if o.centrifugo, err = buildCentrifugo(context.Background(), dir); err != nil {
			return err
		}
	}
	if t, err = startCentrifugo(o.centrifugo, dir); err != nil {
		return err
	}
	o.herd = 0 // it would have to learn every cursor first
	other, err := measure(t, o)
	if err != nil {
		return err
	}
	compare(rows, other)
	return nil
}

var phases = []phase{
	{name: "50 messages/s", rate: 50},
	{name: "8 writers", writers: 8, window: 16},
	{name: "64 writers", writers: 64, window: 128},
	{name: "64 writers, unbounded", writers: 64, window: 4096},
}

// measure runs all phases on one target and stops it.
func measure(t *target, o options) ([]result, error) {
	defer func() { _ = t.stop() }()
	before := rssKB(t.pid())
	s0 := t.readStats()
	c, err := newCrowd(t, o.subscribers)
	if err != nil {
		return nil, err
	}
	time.Sleep(3 * time.Second)
	n := float64(o.subscribers)
	fmt.Printf("\n%s: %d subscribers, texts of %d bytes\n", t.name, o.subscribers, o.size)
	fmt.Printf("idle: %.1f KB RSS a connection", (rssKB(t.pid())-before)/n)
	if t.stats {
		s := t.readStats()
		fmt.Printf(", %.1f KB heap and stack after a collection, %.2f goroutines", float64(s.Heap+s.Stack-s0.Heap-s0.Stack)/1024/n, float64(s.Goroutines-s0.Goroutines)/n)
	}
	fmt.Println()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, strings.Join([]string{"phase", "messages", "deliveries/s", "a frame", "server µs each", "server %", "generator %", "p50 ms", "p99 ms", "last p99 ms", "ack p99 ms", "executions", "faults", ""}, "\t"))
	var rows []result
	for _, p := range phases {
		if !strings.Contains(p.name, o.only) {
			continue
		}
		r, err := c.run(p, o.seconds, o.size)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r)
		_, _ = fmt.Fprintf(w, "%s\t%d\t%.0f\t%.1f\t%.2f\t%.0f\t%.0f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%s\t\n", r.phase, r.messages, r.deliveriesPerSecond, r.perEvent,
			r.serverMicros, r.serverShare, r.generatorShare, r.eachP50, r.eachP99, r.lastP99, r.ackP99, r.executions, r.faults())
	}
	_ = w.Flush()
	fmt.Printf("RSS after all that: %.0f MB\n", rssKB(t.pid())/1024)
	if o.herd > 0 && strings.Contains("herd", o.only) {
		for _, live := range []bool{false, true} {
			h, err := c.herd(o.subscribers, o.herd, o.size, live)
			if err != nil {
				return nil, err
			}
			fmt.Println(h)
		}
	}
	return rows, nil
}

// compare prints the ratios that the goals are about.
func compare(ours, theirs []result) {
	fmt.Printf("\nchathome beside Centrifugo\n")
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "phase\tdeliveries/s\tprocessor time a delivery\t")
	row := func(name string, a, b result) {
		_, _ = fmt.Fprintf(w, "%s\t%.2f ×\t%.2f ×\t\n", name, a.deliveriesPerSecond/b.deliveriesPerSecond, a.serverMicros/b.serverMicros)
	}
	for i := range ours {
		row(ours[i].phase, ours[i], theirs[i])
	}
	row("saturated: each in the phase with its most deliveries/s", saturated(ours), saturated(theirs))
	_ = w.Flush()
}

func saturated(rows []result) result {
	return slices.MaxFunc(rows, func(a, b result) int { return cmp.Compare(a.deliveriesPerSecond, b.deliveriesPerSecond) })
}
