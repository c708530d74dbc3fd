package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// phase is one way to write. rate > 0: so many messages a second; else writers that send as fast as they are
// answered, with at most window messages that not everybody has.
type phase struct {
	name            string
	rate            int
	writers, window int
}

// result of one phase.
type result struct {
	phase                        string
	messages                     int64
	deliveriesPerSecond          float64
	perEvent                     float64 // messages in one frame
	serverMicros                 float64 // of processor time for one delivered message
	serverShare, generatorShare  float64 // of one processor, in percent
	eachP50, eachP99, lastP99    float64 // ms
	ackP50, ackP99               float64 // ms
	executions                   int64
	gaps, repeats, missing, lost int64
}

func (c *crowd) run(p phase, seconds, size int) (result, error) {
	n := int64(len(c.byFd))
	writers := make([]*writer, max(p.writers, 8))
	for i := range writers {
		w, err := newWriter(c.t)
		if err != nil {
			return result{}, err
		}
		defer func() { _ = w.c.Close() }()
		writers[i] = w
	}
	var acks ackTimes
	for range 20 { // warm up
		if err := c.send(writers[0], size, &acks); err != nil {
			return result{}, err
		}
	}
	c.settle(10 * time.Second)
	acks.h, c.each, c.last = histogram{}, histogram{}, histogram{}
	s0 := c.t.readStats()
	frames, delivered, sequence, complete := c.frames.Load(), c.delivered.Load(), c.sequence.Load(), c.complete.Load()
	gaps, repeats, closed := c.gaps.Load(), c.repeats.Load(), c.closed.Load()
	server, generator, start := cpuSeconds(c.t.pid()), cpuSeconds(os.Getpid()), time.Now()
	c.measuring.Store(true)
	var err error
	if p.rate > 0 {
		err = c.atRate(p.rate, seconds, size, writers[:8], &acks)
	} else {
		stop := start.Add(time.Duration(seconds) * time.Second)
		err = c.saturate(writers[:p.writers], stop, size, &acks, func() bool {
			return c.sequence.Load()-sequence-(c.complete.Load()-complete) < int64(p.window)
		})
	}
	if err != nil {
		return result{}, err
	}
	want := (c.sequence.Load() - sequence) * n
	for end := time.Now().Add(15 * time.Second); c.delivered.Load()-delivered < want && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	wall := time.Since(start).Seconds()
	server, generator = cpuSeconds(c.t.pid())-server, cpuSeconds(os.Getpid())-generator
	c.measuring.Store(false)
	got, events := float64(c.delivered.Load()-delivered), float64(c.frames.Load()-frames)
	return result{
		phase: p.name, messages: c.sequence.Load() - sequence, deliveriesPerSecond: got / wall, perEvent: got / events,
		serverMicros: server / got * 1e6, serverShare: server / wall * 100, generatorShare: generator / wall * 100,
		eachP50: c.each.quantile(.5), eachP99: c.each.quantile(.99), lastP99: c.last.quantile(.99),
		ackP50: acks.h.quantile(.5), ackP99: acks.h.quantile(.99), executions: c.t.readStats().Executions - s0.Executions,
		gaps: c.gaps.Load() - gaps, repeats: c.repeats.Load() - repeats, missing: want - int64(got), lost: c.closed.Load() - closed,
	}, nil
}

// settle waits until everybody has every message, at most for d.
func (c *crowd) settle(d time.Duration) {
	for end := time.Now().Add(d); c.complete.Load() < c.sequence.Load() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond)
}

func (c *crowd) atRate(rate, seconds, size int, writers []*writer, acks *ackTimes) error {
	ticks := make(chan struct{}, 100)
	wait := each(writers, func(w *writer) error {
		for range ticks {
			if err := c.send(w, size, acks); err != nil {
				return err
			}
		}
		return nil
	})
	start := time.Now()
	for i := range rate * seconds {
		time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		ticks <- struct{}{}
	}
	close(ticks)
	return wait()
}

func (c *crowd) saturate(writers []*writer, stop time.Time, size int, acks *ackTimes, room func() bool) error {
	return each(writers, func(w *writer) error {
		for time.Now().Before(stop) {
			if !room() {
				time.Sleep(200 * time.Microsecond)
				continue
			}
			if err := c.send(w, size, acks); err != nil {
				return err
			}
		}
		return nil
	})()
}

// each runs f for all writers at once; the function that it returns waits.
func each(writers []*writer, f func(*writer) error) (wait func() error) {
	errs := make([]error, len(writers))
	var wg sync.WaitGroup
	for i, w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = f(w)
		}()
	}
	return func() error {
		wg.Wait()
		return errors.Join(errs...)
	}
}

func (r result) faults() string {
	if r.gaps+r.repeats+r.missing+r.lost == 0 {
		return "none"
	}
	return fmt.Sprintf("%d gaps, %d repeats, %d missing, %d closed", r.gaps, r.repeats, r.missing, r.lost)
}
