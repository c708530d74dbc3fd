package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	loadsOfEach = 3
	perShard    = 20_000 // of a home whose shards are all small
)

// loads measures three homes: one full shard alone, one beside eleven empty ones, and the same messages on twelve.
func loads(ctx context.Context, s *stage, o options) error {
	t := newTable(fmt.Sprintf("Cold loads of %s messages of %d bytes, from the assignment to the open gate; raw is kafka-go's Batch.Read of the same partitions, before and after each load.", thousands(float64(o.messages)), len(text)),
		"what", "took", "messages/s", "raw messages/s", "of raw", "CPU µs a message", "peak RSS MB", "others")
	returns := newTable("The same instance comes back with its local data.", "what", "took", "peak RSS MB")
	for _, c := range []struct {
		name           string
		prefix         string
		shards, filled int
	}{
		{"one shard", "one", 1, 1},
		{"one full shard beside eleven empty", "beside", 12, 1},
		{"twelve shards, a twelfth on each", "spread", 12, 12},
	} {
		if err := s.loadsOf(ctx, t, returns, c.name, c.prefix, c.shards, c.filled, o.messages); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	t.print()
	returns.print()
	return nil
}

func (s *stage) loadsOf(ctx context.Context, t, returns *table, name, prefix string, shards, filled, messages int) (err error) {
	h, err := s.home(prefix, shards, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if err := h.prepare(ctx); err != nil {
		return err
	}
	began := time.Now()
	fillers := make([]*filler, filled)
	for i := range fillers {
		fillers[i] = s.filler(h, i)
		if err := fillers[i].write(ctx, messages/filled); err != nil {
			return err
		}
	}
	messages = messages / filled * filled
	note("%s: filled in %.1f s", name, time.Since(began).Seconds())
	var took, worked []time.Duration
	var raws, peaks, others []float64
	readAll := func() error {
		n, took := 0, time.Duration(0)
		for i := range filled {
			records, d, err := s.rawRead(ctx, h.topic(), i)
			if err != nil {
				return err
			}
			n, took = n+records, took+d
		}
		if n < messages {
			return fmt.Errorf("raw read: %d records of %d messages", n, messages)
		}
		raws = append(raws, float64(n)/took.Seconds())
		return nil
	}
	for range loadsOfEach {
		if err := readAll(); err != nil {
			return err
		}
		if err := h.Instances[0].RemoveStore(); err != nil {
			return err
		}
		l, err := s.load(ctx, h)
		if err != nil {
			return err
		}
		if l.read < float64(messages) {
			return fmt.Errorf("it loaded %.0f records of %d messages", l.read, messages)
		}
		took, worked, peaks = append(took, l.took), append(worked, l.spent.chathome), append(peaks, l.peak)
		others = append(others, l.spent.othersShare(l.wall))
	}
	if err := readAll(); err != nil {
		return err
	}
	rate, raw := float64(messages)/median(took).Seconds(), median(raws)
	t.add(name, seconds(median(took)), thousands(rate), thousands(raw), ratio(rate, raw),
		fmt.Sprintf("%.2f", float64(median(worked).Microseconds())/float64(messages)), fmt.Sprintf("%.0f", median(peaks)), percent(median(others)))
	return s.comeBack(ctx, returns, h, name, fillers)
}

// comeBack starts an instance with its local data: nothing new at first, and then some.
func (s *stage) comeBack(ctx context.Context, t *table, h *home, name string, fillers []*filler) error {
	const news = 20_000
	for _, n := range []int{0, news} {
		var took []time.Duration
		var peaks []float64
		for range loadsOfEach {
			for _, f := range fillers {
				if err := f.write(ctx, n/len(fillers)); err != nil {
					return err
				}
			}
			l, err := s.load(ctx, h)
			if err != nil {
				return err
			}
			if most := float64(n + 10*h.shards); l.read > most {
				return fmt.Errorf("it came back and read %.0f records, more than %.0f", l.read, most)
			}
			took, peaks = append(took, l.took), append(peaks, l.peak)
		}
		t.add(fmt.Sprintf("%s, %s new messages", name, thousands(float64(n))), wholeMs(median(took))+" ms", fmt.Sprintf("%.0f", median(peaks)))
	}
	return nil
}

// loading is one start of an instance, seen from outside.
type loading struct {
	took  time.Duration // from the assignment to the open gate
	wall  time.Duration // since the process was started
	spent spent         // in that time
	peak  float64       // MB
	read  float64       // records of the log
}

// load starts the instance, waits until it is ready, and stops it.
func (s *stage) load(ctx context.Context, h *home) (l loading, err error) {
	i := h.Instances[0]
	d := diaryOf(i)
	began := time.Now()
	before, err := s.spent(0)
	if err != nil {
		return l, err
	}
	if err := h.start(ctx, 0); err != nil {
		return l, err
	}
	var errs [4]error
	l.spent, errs[0] = s.spent(i.PID())
	l.spent, l.wall = l.spent.since(before), time.Since(began)
	l.peak, errs[1] = peakMB(i.PID())
	m, err := d.metrics(ctx)
	l.read, errs[2] = m["chathome_loaded_records_total"], err
	l.took, errs[3] = d.loadTime(h.shards)
	return l, errors.Join(errors.Join(errs[:]...), i.Stop(stopLimit))
}

// loadTime is the time from the last assignment to the moment when the last shard was loaded, which opens the gate.
func (d *diary) loadTime(shards int) (time.Duration, error) {
	assigned, err := d.entries("shards assigned")
	if err != nil {
		return 0, err
	}
	loaded, err := d.entries("shard loaded")
	if err != nil {
		return 0, err
	}
	if len(assigned) != 1 || len(loaded) != shards {
		return 0, fmt.Errorf("%d assignments and %d of %d shards loaded in one start; log %s", len(assigned), len(loaded), shards, d.file)
	}
	return loaded[len(loaded)-1].at.Sub(assigned[0].at), nil
}
