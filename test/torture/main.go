// Command torture breaks a cluster of processes in all ways that it knows, while clients use it, and judges what they
// saw: make torture MINUTES=10 SEED=7.
//
// It goes in rounds. Each is a new cluster (a broker, or real ones with -kafka, and three instances, each behind a
// proxy of its own), a crowd of clients (package traffic) and a plan of faults drawn from the seed; at the end everything is healed, the
// clients come to an end, and two judges hold answers, subscribers, history and log against each other.
//
// round.go is a round, faults.go what can go wrong and plan.go when, brokers.go, disk.go, damage.go and foreign.go larger faults,
// margins.go measures how far an old owner's last answer is from the new one's first, report.go tells.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

type options struct {
	program   string
	minutes   float64
	round     time.Duration
	instances int
	rooms     int
	writers   int
	pace      time.Duration
	seed      uint64
	out       string
	only      string
	keep      bool
	margins   bool
	phases    int
	kafka     string
	nodes     int
}

func main() {
	var o options
	flag.StringVar(&o.program, "program", "bin/chathome", "the built `program`")
	flag.Float64Var(&o.minutes, "minutes", 10, "how long, in all")
	flag.DurationVar(&o.round, "round", 3*time.Minute, "how long one round breaks things")
	flag.IntVar(&o.instances, "instances", 3, "number of instances, 2 to 9")
	flag.IntVar(&o.rooms, "rooms", 6, "number of chat rooms with subscribers")
	flag.IntVar(&o.writers, "writers", 8, "number of clients that write")
	flag.DurationVar(&o.pace, "pace", 80*time.Millisecond, "mean time between two messages of one of them")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the plans; 0 draws one")
	flag.StringVar(&o.out, "out", ".torture", "`directory` for what is kept of a round that failed")
	flag.BoolVar(&o.keep, "keep", false, "keep data and logs of clean rounds too")
	flag.StringVar(&o.only, "only", "", "comma-separated `faults` to use: "+strings.Join(names(faultsOf(many)), ", "))
	flag.BoolVar(&o.margins, "margins", false, "measure margins instead: how long after the last question that an old owner answered the new one answers first")
	flag.IntVar(&o.phases, "phases", 6, "with -margins: how often each fault is measured")
	flag.StringVar(&o.kafka, "kafka", "", "`version` of Apache Kafka to run on, instead of the embedded broker: 3.9, 4.0 or 4.4")
	flag.IntVar(&o.nodes, "nodes", many, "with -kafka: number of brokers")
	flag.Parse()
	if flag.NArg() > 0 || o.instances < 2 || o.instances > 9 || o.rooms < 1 || o.writers < 1 || o.minutes <= 0 || o.pace <= 0 || o.round < 10*time.Second || o.nodes < 1 || o.nodes > 9 || o.margins && o.kafka != "" {
		fmt.Fprintln(os.Stderr, "torture: wrong usage; what there is:")
		flag.PrintDefaults()
		os.Exit(2)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	do := torture
	if o.margins {
		do = margins
	}
	clean, err := do(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
	}
	if err != nil || !clean {
		os.Exit(1)
	}
}

// many brokers are more than one.
const many = 3

// on says what the instances rest on where that is not the embedded broker.
func (o *options) on() string {
	if o.kafka == "" {
		return ""
	}
	return fmt.Sprintf(", %d brokers of Kafka %s", o.nodes, o.kafka)
}

// longRun is the time, in minutes, within which each fault has to bite.
const longRun = 15

// torture runs rounds until the time is over or one has failed.
func torture(ctx context.Context, o options) (clean bool, err error) {
	brokers := 1
	if o.kafka != "" {
		brokers = o.nodes
	}
	kinds, err := choose(o.only, brokers)
	if err != nil {
		return false, err
	}
	left := time.Duration(o.minutes * float64(time.Minute))
	total := newSum()
	defer os.Remove(o.out) // if nothing had to be kept
	fmt.Printf("torture for %v, seed %d%s\n", left, o.seed, o.on())
	for n := 0; left > 0 && ctx.Err() == nil; n++ {
		length := min(o.round, left)
		if rest := left - length; rest < 30*time.Second {
			length = left // rather a longer round than one that is too short to break much
		}
		left -= length
		r := &round{o: o, number: n, seed: o.seed + uint64(n), length: length, kinds: kinds}
		if err := r.run(ctx); err != nil {
			return false, err
		}
		total.add(r)
		if !r.clean() {
			r.report()
			fmt.Printf("\nround %d FAILED; kept in %s\n", n+1, r.kept)
			fmt.Println(total.ledger(o, 1))
			return false, nil
		}
		fmt.Printf("round %d ok: %s\n", n+1, r.verdictLine())
	}
	enough := total.table(kinds) || o.minutes < longRun
	fmt.Println("\nfor docs/RELIABILITY.md:")
	fmt.Println(total.ledger(o, 0))
	return enough || ctx.Err() != nil, nil
}
