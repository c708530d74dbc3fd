package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type options struct {
	program  string
	only     string
	dir      string
	seconds  int
	messages int
	rounds   int

	connections []int
}

// maxConnections: the server lets so many sockets of one address in.
const maxConnections = 4096

// limit bounds a whole run, which takes about four minutes.
const limit = 6 * time.Minute

func main() {
	var o options
	flag.StringVar(&o.program, "program", "bin/chathome", "the built `program`")
	flag.StringVar(&o.only, "only", "", "run some `parts` alone, comma-separated: sends, load, moves")
	flag.StringVar(&o.dir, "dir", "", "`directory` for data and logs, kept; none: a temporary one, kept after a fault only")
	flag.IntVar(&o.seconds, "seconds", 4, "length of each phase of sends")
	flag.IntVar(&o.messages, "messages", 2_000_000, "messages of the shard that is loaded")
	flag.IntVar(&o.rounds, "rounds", 5, "planned handovers; crashes are two")
	o.connections = []int{1, 64, 1000}
	flag.Func("connections", "how many send at once, comma-separated (default 1,64,1000)", func(list string) error {
		o.connections = nil
		for word := range strings.SplitSeq(list, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 || n > maxConnections {
				return fmt.Errorf("%q is not a number from 1 to %d", word, maxConnections)
			}
			o.connections = append(o.connections, n)
		}
		return nil
	})
	flag.Parse()
	chosen, err := choose(o.only)
	if err == nil && (flag.NArg() > 0 || o.seconds < 1 || o.messages < perShard || o.rounds < 1) {
		err = fmt.Errorf("wrong usage: -seconds and -rounds at least 1, -messages at least %d, nothing else", perShard)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kafkaload:", err)
		flag.PrintDefaults()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done within %v", limit))
	defer cancel()
	if err := run(ctx, o, chosen); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		fmt.Fprintln(os.Stderr, "kafkaload:", err)
		os.Exit(1)
	}
}

type part struct {
	name string
	run  func(context.Context, *stage, options) error
}

func parts() []part { return []part{{"sends", sends}, {"load", loads}, {"moves", moves}} }

func choose(only string) ([]part, error) {
	if only == "" {
		return parts(), nil
	}
	var chosen []part
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(parts(), func(p part) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no part %q: sends, load, moves", name)
		}
		chosen = append(chosen, parts()[i])
	}
	return chosen, nil
}

func run(ctx context.Context, o options, chosen []part) (err error) {
	began := time.Now()
	s, err := newStage(ctx, o.program, o.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(err == nil)) }()
	printMachine(ctx)
	for _, p := range chosen {
		note("%s", p.name)
		if err := p.run(ctx, s, o); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	note("%v in all", time.Since(began).Round(time.Second))
	return nil
}

// note tells the person who waits how far it is; tables go to the standard output.
func note(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
