package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/chathome/chathome/test/chat"
	"github.com/chathome/chathome/test/check"
	"github.com/chathome/chathome/test/check/linear"
	"github.com/chathome/chathome/test/cluster"
	"github.com/chathome/chathome/test/corpus"
	"github.com/chathome/chathome/test/traffic"
)

// round is one cluster, broken and judged.
type round struct {
	o      options
	number int
	seed   uint64
	length time.Duration
	kinds  []fault

	setting setting
	session time.Duration
	cluster *cluster.Cluster
	net     *chat.Net
	crowd   *traffic.Traffic
	plan    *plan
	brokers brokers
	disk    string // where the small disk is mounted, if it is
	kept    string // where everything lies

	verdict *check.Verdict
	second  *linear.Result
	took    time.Duration

	mu       sync.Mutex
	timeline []moment
	failures []string // beside the verdicts
	bits     map[string]int64
	used     map[string]int64
	skipped  map[string]bool
}

type moment struct {
	at   check.Time
	text string
}

// setting is how the instances of a round are configured.
type setting struct {
	name    string
	session time.Duration
	flags   []string
}

// settings: the default times, shorter ones, and the smallest that are allowed; each with both policies of the gate.
func settings() []setting {
	smallest := shortest()
	var list []setting
	for _, gate := range []string{"instance", "shard"} {
		list = append(list,
			setting{"session 2 s, gate " + gate, 2 * time.Second, []string{"--session-timeout", "2s", "--rebalance-timeout", "2s", "--gate", gate}},
			setting{"default times, gate " + gate, 6 * time.Second, []string{"--gate", gate}},
			setting{"smallest times, gate " + gate, smallest.session, append(smallest.flags, "--gate", gate)},
		)
	}
	return list
}

// shortest are the smallest times that the program accepts: session and rebalance timeout have to be above the
// heartbeat interval (20 ms at least) + 1 s for an answer + 500 ms for clocks.
func shortest() setting {
	const session = 1530 * time.Millisecond
	return setting{"smallest times", session, []string{"--heartbeat-interval", "20ms", "--session-timeout", session.String(), "--rebalance-timeout", session.String()}}
}

// Limits for the parts of a round that wait for the cluster.
const (
	startLimit  = 60 * time.Second
	healLimit   = 60 * time.Second // until all are ready after the last fault
	answerLimit = 60 * time.Second // for writers to learn the end of their last message
	settleLimit = 2 * time.Minute
	stopLimit   = 12 * time.Second // the shutdown timeout is 10 s
	judgeLimit  = 60 * time.Second // for the second judge, for a part of a room
)

func (r *round) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timeline = append(r.timeline, moment{r.net.Clock(), fmt.Sprintf(format, args...)})
}

// fail notes what must not happen, whatever the clients saw.
func (r *round) fail(format string, args ...any) {
	r.note("FAILURE: "+format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *round) count(fault string, bit int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used[fault]++
	r.bits[fault] += bit
}

func (r *round) skip(fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skipped[fault] = true
}

// clean says that the round found nothing.
func (r *round) clean() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failures) == 0 && r.verdict != nil && r.verdict.Clean() && r.second.Clean()
}

func (r *round) verdictLine() string {
	return fmt.Sprintf("seed %d, %s: %d messages, %d sends, %d reads, %d deliveries, %d takeovers, %d void records; %s",
		r.seed, r.setting.name, r.verdict.Messages, len(r.net.History.Sends), r.verdict.Reads, r.verdict.Deliveries, r.verdict.Facts.Takeovers, r.verdict.Facts.Void, r.second)
}

// run breaks and judges. An error is about the harness; what the product did wrong is in the round.
func (r *round) run(ctx context.Context) (err error) {
	began := time.Now()
	r.net = chat.NewNet(&check.History{})
	r.bits, r.used, r.skipped = map[string]int64{}, map[string]int64{}, map[string]bool{}
	r.plan = newPlan(r.seed, r.kinds)
	list := settings()
	r.setting = list[r.seed%uint64(len(list))] // in turn: rounds have seeds in a row
	r.session = r.setting.session
	if r.kept, err = filepath.Abs(filepath.Join(r.o.out, fmt.Sprintf("seed-%d-%s", r.seed, time.Now().Format("150405")))); err != nil {
		return err
	}
	if err := os.MkdirAll(r.kept, 0o700); err != nil {
		return err
	}
	if disk := filepath.Join(r.kept, "a"); mountDisk(disk) == nil {
		r.disk = disk
	} else {
		fmt.Println("no small disk can be mounted here (that takes root): the fault \"full disk\" is not covered")
	}
	defer func() {
		r.took = time.Since(began)
		if r.disk != "" {
			err = errors.Join(err, unmountDisk(r.disk))
		}
		if err == nil && r.clean() && !r.o.keep {
			err = os.RemoveAll(r.kept)
		}
	}()
	config := cluster.Config{Program: r.o.program, Dir: r.kept, Instances: r.o.instances, Links: true, Serve: r.setting.flags}
	if r.o.kafka != "" {
		dir := filepath.Join(r.kept, "kafka")
		b, err := startReal(ctx, r.o, dir)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.stop(dir)) }()
		r.brokers, config.Brokers = b, b.Addrs()
	}
	if r.cluster, err = cluster.New(config); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.cluster.Close()) }()
	if r.brokers == nil {
		r.brokers = embedded{r.cluster.Broker}
	}
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := r.cluster.Start(starting); err != nil {
		return err
	}
	r.net.Know(r.cluster.URLs()...)
	living, end := context.WithCancel(context.Background()) // Ctrl-C ends the breaking, not the judging
	defer end()
	crowd, err := traffic.Start(living, r.net, traffic.Config{
		Seed: r.seed, Rooms: r.o.rooms, Writers: r.o.writers, Pace: r.o.pace, Births: true, Texts: corpus.Load(), Probes: r.cluster.URLs(),
	})
	if err != nil {
		return err
	}
	r.crowd = crowd
	r.note("%s; the crowd is in", r.setting.name)
	breaking, cancel := context.WithTimeout(ctx, r.length)
	defer cancel()
	watched := make(chan struct{})
	watching, unwatch := context.WithCancel(ctx)
	go func() {
		defer close(watched)
		r.watch(watching)
	}()
	r.breaking(breaking)
	unwatch()
	<-watched
	return r.end(living)
}

// watch looks for processes that end by themselves.
func (r *round) watch(ctx context.Context) {
	told := map[string]int{}
	for {
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return
		}
		for _, i := range r.cluster.Instances {
			if i.Running() || !r.plan.idle(i.Name) {
				told[i.Name] = 0
			} else if told[i.Name]++; told[i.Name] == 2 { // not in the moment in which a fault begins
				r.fail("%s ended by itself: %s", i.Name, i.How())
			}
		}
	}
}

// end heals, waits and judges.
func (r *round) end(ctx context.Context) error {
	r.note("healed; no more faults")
	for _, i := range r.cluster.Instances {
		if !i.Running() {
			r.fail("%s does not run: %s", i.Name, i.How())
		}
	}
	healing, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	if err := r.cluster.WaitReady(healing); err != nil {
		r.fail("stuck: %v", err)
	}
	r.note("all are ready")
	r.crowd.Quiet(answerLimit)
	settling, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := r.crowd.Settle(settling); err != nil {
		r.fail("stuck: %v", err)
	}
	reading, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	var err error
	if r.verdict, err = r.crowd.Judge(reading, r.cluster.Brokers()); err != nil {
		return err
	}
	r.second = linear.Check(r.net.History, judgeLimit)
	if err := r.cluster.Stop(stopLimit); err != nil {
		r.fail("stop: %v", err)
	}
	return r.readLogs()
}

// readLogs looks for what no log may hold.
func (r *round) readLogs() error {
	for _, i := range r.cluster.Instances {
		b, err := os.ReadFile(i.LogFile)
		if err != nil {
			return err
		}
		for _, bad := range []string{"panic: ", "WARNING: DATA RACE", "fatal error: "} {
			if n := bytes.Index(b, []byte(bad)); n >= 0 {
				line, _, _ := bytes.Cut(b[n:], []byte("\n"))
				r.fail("%s in the log of %s: %s", bad, i.Name, line)
			}
		}
	}
	return nil
}
