package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/test/chat"
)

const (
	shardsOfHome  = 12 // the default
	roomsOfHome   = 48
	phasesOfSends = 2 // of each kind, in turn
	warmUp        = time.Second
)

// result is what one or more phases of one kind came to.
type result struct {
	times   []time.Duration // from the sending to the answer
	wall    time.Duration
	spent   spent
	records float64 // in acknowledged batches
	batches float64
	waited  float64 // for those, seconds
}

func (r *result) add(o result) {
	r.times = append(r.times, o.times...)
	slices.Sort(r.times)
	r.wall += o.wall
	r.spent = r.spent.plus(o.spent)
	r.records += o.records
	r.batches += o.batches
	r.waited += o.waited
}

func (r *result) rate() float64 { return float64(len(r.times)) / r.wall.Seconds() }

// each is a processor time for one send, in µs.
func (r *result) each(d time.Duration) float64 {
	return float64(d.Microseconds()) / float64(len(r.times))
}

func sends(ctx context.Context, s *stage, o options) (err error) {
	h, err := s.home("sends", shardsOfHome, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	d := diaryOf(h.Instances[0])
	if err := h.start(ctx, 0); err != nil {
		return err
	}
	rooms, err := h.rooms(ctx, roomsOfHome)
	if err != nil {
		return err
	}
	const topic = "raw"
	if err := s.ensure(ctx, topic, shardsOfHome); err != nil {
		return err
	}
	t := newTable(fmt.Sprintf("Sends: each connection sends a message of %d bytes, waits for its answer and sends the next. %d rooms on %d shards; raw is kafka-go's Client.Produce, acks=all, into %[3]d partitions with the same batches.", len(text), len(rooms), shardsOfHome),
		"connections", "sends/s", "p50 ms", "p99 ms", "records a batch", "batch ms", "CPU µs a send", "broker's", "clients'", "others")
	for _, n := range o.connections {
		var ours, theirs result
		for range phasesOfSends {
			r, err := s.chathomeSends(ctx, h, d, rooms, n, time.Duration(o.seconds)*time.Second)
			if err != nil {
				return err
			}
			ours.add(r)
			if r, err = s.rawSends(ctx, topic, n, r.records/r.batches, time.Duration(o.seconds)*time.Second); err != nil {
				return err
			}
			theirs.add(r)
		}
		batch := fmt.Sprintf("%.1f", ours.records/ours.batches)
		t.add(fmt.Sprint(n), thousands(ours.rate()), ms(quantile(ours.times, .5)), ms(quantile(ours.times, .99)), batch,
			fmt.Sprintf("%.2f", ours.waited/ours.batches*1e3), fmt.Sprintf("%.0f", ours.each(ours.spent.chathome)),
			fmt.Sprintf("%.0f", ours.each(ours.spent.broker)), fmt.Sprintf("%.0f", ours.each(ours.spent.self)), percent(ours.spent.othersShare(ours.wall)))
		t.add(fmt.Sprintf("%d, raw", n), thousands(theirs.rate()), ms(quantile(theirs.times, .5)), ms(quantile(theirs.times, .99)), batch, "",
			fmt.Sprintf("%.0f", theirs.each(theirs.spent.self)), fmt.Sprintf("%.0f", theirs.each(theirs.spent.broker)), "", percent(theirs.spent.othersShare(theirs.wall)))
	}
	t.print()
	return h.Stop(stopLimit)
}

// user is the name of the i-th sender of a phase: one phase's client ids are not another's.
func (s *stage) user(i int) string { return fmt.Sprintf("user-%d-%d", s.phases, i) }

// rooms makes n rooms, spread evenly over the shards.
func (h *home) rooms(ctx context.Context, n int) ([]uuid.UUID, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	socket, err := chat.Dial(ctx, h.Instances[0].URL)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	var rooms []uuid.UUID
	for i := range n {
		id := roomOn(i%h.shards, h.shards)
		var out struct {
			CreateChatRoom struct {
				Typename string `json:"__typename"`
			} `json:"createChatRoom"`
		}
		err := socket.Do(ctx, `mutation($id: ID!) { createChatRoom(input: {name: "load", id: $id}) { __typename } }`, map[string]any{"id": id}, &out)
		if err == nil && out.CreateChatRoom.Typename != "CreateChatRoomSuccess" {
			err = errors.New(out.CreateChatRoom.Typename)
		}
		if err != nil {
			return nil, fmt.Errorf("create a room: %w", err)
		}
		rooms = append(rooms, id)
	}
	return rooms, nil
}

func (s *stage) chathomeSends(ctx context.Context, h *home, d *diary, rooms []uuid.UUID, n int, length time.Duration) (r result, err error) {
	s.phases++
	address := strings.TrimPrefix(h.Instances[0].URL, "http://")
	sockets := make([]*socket, n)
	defer func() {
		for _, c := range sockets {
			if c != nil {
				_ = c.conn.Close() // what it was for is done
			}
		}
	}()
	for i := range sockets {
		if sockets[i], err = openSocket(ctx, address, rooms[i%len(rooms)], s.user(i)); err != nil {
			return r, err
		}
	}
	before, err := d.metrics(ctx)
	if err != nil {
		return r, err
	}
	r, err = s.phase(ctx, h.Instances[0].PID(), n, length, func(_ context.Context, i int) (time.Time, error) { return sockets[i].send() })
	if err != nil {
		return r, err
	}
	after, err := d.metrics(ctx)
	if err != nil {
		return r, err
	}
	r.records = after["chathome_batch_records_sum"] - before["chathome_batch_records_sum"]
	r.batches = after["chathome_batch_records_count"] - before["chathome_batch_records_count"]
	r.waited = after["chathome_append_seconds_sum"] - before["chathome_append_seconds_sum"]
	if r.batches < 1 {
		return r, errors.New("the metrics tell of no batch")
	}
	return r, nil
}

func (s *stage) rawSends(ctx context.Context, topic string, n int, batch float64, length time.Duration) (result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	senders, wait := startRaw(ctx, s.broker.Addrs()[0], topic, shardsOfHome, n, batch)
	for i := range senders {
		senders[i].name = s.user(i)
	}
	defer wait()
	defer cancel(errOver)
	return s.phase(ctx, 0, n, length, func(ctx context.Context, i int) (time.Time, error) { return senders[i].send(ctx) })
}

// phase lets n send for a while, and counts what is answered after the warm-up.
func (s *stage) phase(ctx context.Context, pid, n int, length time.Duration, send func(context.Context, int) (time.Time, error)) (r result, err error) {
	began := time.Now()
	from, to := began.Add(warmUp), began.Add(warmUp+length)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	times, errs := make([][]time.Duration, n), make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				answered, err := send(ctx, i)
				if err != nil {
					if !errors.Is(err, errOver) {
						errs[i] = err
						cancel()
					}
					return
				}
				if answered.After(from) && answered.Before(to) {
					times[i] = append(times[i], answered.Sub(asked))
				}
			}
		})
	}
	sleepUntil(ctx, from)
	before, err := s.spent(pid)
	sleepUntil(ctx, to)
	after, err2 := s.spent(pid)
	cancel()
	all.Wait()
	if err := errors.Join(append(errs, err, err2)...); err != nil {
		return r, err
	}
	for _, t := range times {
		r.times = append(r.times, t...)
	}
	if len(r.times) == 0 {
		return r, fmt.Errorf("nothing was stored in %v", length)
	}
	r.wall, r.spent = length, after.since(before)
	return r, nil
}

func sleepUntil(ctx context.Context, at time.Time) {
	select {
	case <-time.After(time.Until(at)):
	case <-ctx.Done():
	}
}
