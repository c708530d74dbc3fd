// Command demo drives a cluster with real clients while its instances are stopped, killed and started again, shows
// what happens, and ends with a verdict: make demo.
//
// Clients speak GraphQL over WebSocket. The verdict holds four views against each other: what senders were
// answered, what two live subscribers a room got, the history walked from its start, and the raw log as read by
// an independent reader.
//
// director.go makes things happen, view.go knows how things are, screen.go shows it, table.go draws it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/chathome/chathome/test/chat"
	"github.com/chathome/chathome/test/check"
	"github.com/chathome/chathome/test/check/linear"
	"github.com/chathome/chathome/test/cluster"
	"github.com/chathome/chathome/test/corpus"
	"github.com/chathome/chathome/test/traffic"
)

type options struct {
	program   string
	duration  time.Duration
	instances int
	rooms     int
	writers   int
	pace      time.Duration
	session   time.Duration
	seed      uint64
	dir       string
	brokers   string
}

func main() {
	var o options
	flag.StringVar(&o.program, "program", "bin/chathome", "the built `program`")
	flag.DurationVar(&o.duration, "duration", time.Minute, "how long messages are sent")
	flag.IntVar(&o.instances, "instances", 3, "number of instances, 2 to 9")
	flag.IntVar(&o.rooms, "rooms", 6, "number of chat rooms")
	flag.IntVar(&o.writers, "writers", 8, "number of people who write")
	flag.DurationVar(&o.pace, "pace", 60*time.Millisecond, "mean time between two messages of one of them")
	flag.DurationVar(&o.session, "session", 3*time.Second, "the instances' session timeout: how long a killed one is missed")
	flag.Uint64Var(&o.seed, "seed", 0, "seed of the plan; 0 draws one")
	flag.StringVar(&o.dir, "dir", "", "`directory` for data and logs, kept; none: a temporary one, kept after a violation only")
	flag.StringVar(&o.brokers, "brokers", os.Getenv("CHATHOME_BROKERS"), "brokers of a real Kafka without a home, comma-separated; none: the embedded one")
	flag.Parse()
	if flag.NArg() > 0 || o.instances < 2 || o.instances > 9 || o.rooms < 1 || o.writers < 1 || o.duration <= 0 || o.pace <= 0 {
		fmt.Fprintln(os.Stderr, "demo: wrong usage; what there is:")
		flag.PrintDefaults()
		os.Exit(2)
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000) + 1
	}
	clean, err := run(o)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	case !clean:
		os.Exit(1)
	}
}

// Limits for the parts that wait for the cluster.
const (
	startLimit  = 60 * time.Second
	answerLimit = 30 * time.Second // for writers to learn the end of their last message
	settleLimit = 60 * time.Second
	stopLimit   = 15 * time.Second
	judgeLimit  = 30 * time.Second // for a part of a room
)

// run returns whether the verdict is clean. An error is about the demo itself.
func run(o options) (clean bool, err error) {
	// The first Ctrl-C ends the sending and goes on to the verdict; the second ends all.
	quit, stopSignals := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stopSignals()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-quit.Done()
		stopSignals()
	}()

	temporary := o.dir == ""
	if temporary {
		if o.dir, err = os.MkdirTemp("", "chathome-demo"); err != nil {
			return false, err
		}
	}
	defer func() {
		if temporary && err == nil && clean {
			err = os.RemoveAll(o.dir)
		} else {
			fmt.Printf("logs and data: %s\n", o.dir)
		}
	}()
	var brokers []string
	if o.brokers != "" {
		brokers = strings.Split(o.brokers, ",")
	}
	c, err := cluster.New(cluster.Config{
		Program: o.program, Dir: o.dir, Instances: o.instances, Brokers: brokers,
		Serve: []string{"--session-timeout", o.session.String(), "--rebalance-timeout", o.session.String()},
	})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()

	texts := corpus.Load()
	view := newView(o, texts.Sources())
	screen := newScreen(view, os.Stdout)
	defer screen.end()
	view.watch(ctx, c)
	view.event("starting a broker and %d instances", o.instances)
	starting, done := context.WithTimeout(quit, startLimit)
	defer done()
	if err := c.Start(starting); err != nil {
		return false, err
	}
	net := chat.NewNet(&check.History{})
	net.Know(c.URLs()...)
	crowd, err := traffic.Start(ctx, net, traffic.Config{Seed: o.seed, Rooms: o.rooms, Writers: o.writers, Pace: o.pace, Texts: texts})
	if err != nil {
		return false, err
	}
	view.count(crowd)
	view.event("%d people write to %d rooms; each room has two live subscribers", o.writers, o.rooms)

	direct(quit, c, view, o)
	if quit.Err() != nil {
		view.event("interrupted: no more messages; once more ends at once")
	} else {
		view.event("time is up: no more messages")
	}
	crowd.Quiet(answerLimit)
	view.event("waiting for the subscribers, and reading the history of each room from its start")
	settling, done := context.WithTimeout(ctx, settleLimit)
	defer done()
	settled := crowd.Settle(settling)
	view.event("reading the log with an independent reader")
	verdict, judged := crowd.Judge(settling, c.Brokers())
	view.event("stopping all")
	stopped := c.Stop(stopLimit)
	cancel()
	view.wait()
	screen.end()
	if judged != nil {
		return false, errors.Join(settled, judged, stopped)
	}
	return tell(o, verdict, linear.Check(net.History, judgeLimit), append(view.faults(), settled, stopped))
}

// tell prints the verdict.
func tell(o options, v *check.Verdict, second *linear.Result, faults []error) (clean bool, err error) {
	fmt.Println()
	if _, err := v.WriteTo(os.Stdout); err != nil {
		return false, err
	}
	fmt.Println(second)
	clean = v.Clean() && second.Clean()
	for _, err := range faults {
		if err != nil {
			clean = false
			fmt.Println("fault:", err)
		}
	}
	if clean {
		fmt.Printf("\nNothing lost, doubled or out of order (seed %d).\n", o.seed)
	} else {
		fmt.Printf("\nA PROMISE WAS BROKEN. Again: make demo ARGS='-seed %d -duration %v'\n", o.seed, o.duration)
	}
	return clean, nil
}
