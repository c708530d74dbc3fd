package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	crashes = 2
	calm    = 600 * time.Millisecond // after a move, before the next one
)

// silences of one kind of event, over all rooms and rounds.
type silences struct{ moved, stayed []time.Duration }

func (q *silences) row(name string) []string {
	cell := func(all []time.Duration, at float64) string {
		if len(all) == 0 {
			return ""
		}
		slices.Sort(all)
		return wholeMs(quantile(all, at))
	}
	return []string{name, fmt.Sprint(len(q.moved)), cell(q.moved, .5), cell(q.moved, 1), fmt.Sprint(len(q.stayed)), cell(q.stayed, .5), cell(q.stayed, 1)}
}

// moves lets one of two instances leave, come back and crash, while each shard has a room that is written to.
func moves(ctx context.Context, s *stage, o options) (err error) {
	h, err := s.home("moves", shardsOfHome, 2)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if err := h.prepare(ctx); err != nil {
		return err
	}
	for shard := range shardsOfHome {
		if err := s.filler(h, shard).write(ctx, perShard); err != nil {
			return err
		}
	}
	if err := h.start(ctx, 0); err != nil {
		return err
	}
	rooms, err := h.rooms(ctx, shardsOfHome)
	if err != nil {
		return err
	}
	if err := h.start(ctx, 1); err != nil {
		return err
	}
	sending, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	senders := make([]*sender, len(rooms))
	errs := make([]error, len(rooms))
	for i, room := range rooms {
		senders[i] = &sender{urls: h.URLs(), room: room}
		all.Go(func() {
			if errs[i] = senders[i].run(sending); errs[i] != nil {
				stop(errs[i])
			}
		})
	}
	defer func() {
		stop(nil)
		all.Wait()
	}()
	if err := settled(sending, senders, time.Now()); err != nil {
		return err
	}

	leaver := h.Instances[0]
	var leave, join, crash silences
	for range o.rounds {
		err := errors.Join(
			observe(sending, senders, &leave, func() error { return leaver.Stop(stopLimit) }),
			observe(sending, senders, &join, func() error { return h.start(sending, 0) }))
		if err != nil {
			return err
		}
	}
	for range crashes {
		err := errors.Join(observe(sending, senders, &crash, leaver.Kill), observe(sending, senders, &silences{}, func() error { return h.start(sending, 0) }))
		if err != nil {
			return err
		}
	}
	t := newTable(fmt.Sprintf("Moves between two instances, %d shards with %s messages each, one room of each written to every %v. Time in ms from the last message stored before to the first one stored after, of rooms whose shard moved and of those whose shard stayed.", shardsOfHome, thousands(perShard), pace),
		"what", "moved", "p50", "max", "stayed", "p50", "max")
	t.add(leave.row("SIGTERM of one")...)
	t.add(join.row("start of one, with its local data")...)
	t.add(crash.row("kill -9 of one, default session timeout (6 s)")...)
	t.print()
	stop(nil)
	all.Wait()
	return errors.Join(h.Stop(stopLimit), errors.Join(errs...))
}

// observe lets something happen, and notes what the senders saw of it once all of them write again.
func observe(ctx context.Context, senders []*sender, q *silences, event func() error) error {
	from := time.Now()
	if err := event(); err != nil {
		return err
	}
	if err := settled(ctx, senders, time.Now()); err != nil {
		return err
	}
	for _, s := range senders {
		longest, moved := s.silence(from)
		if moved {
			q.moved = append(q.moved, longest)
		} else {
			q.stayed = append(q.stayed, longest)
		}
	}
	return nil
}

// settled waits until every room was written to for a while after t.
func settled(ctx context.Context, senders []*sender, t time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, s := range senders {
		for {
			if list := s.since(t); len(list) > 1 && list[len(list)-1].at.Sub(list[1].at) > calm {
				break
			}
			sleepUntil(ctx, time.Now().Add(pace))
			if ctx.Err() != nil {
				return fmt.Errorf("a room is not written to again: %w", context.Cause(ctx))
			}
		}
	}
	return nil
}
