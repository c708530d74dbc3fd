package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// herdResult says what it costs that everybody comes back at once.
type herdResult struct {
	readers, missed int
	delivered       int64
	wall, server    float64 // seconds; of processor time
	generator       float64
	executions      int64
	liveP99         float64 // ms, of those who stayed; -1 if there are none
	incomplete      int
}

// cursors are those behind the room's last n messages, oldest first.
func (t *target) cursors(n int) ([]string, error) {
	w, err := newWriter(t)
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.c.Close() }()
	b, err := w.post(`{"query":"query Q($room: ID!, $n: Int) { chatRoom(id: $room) { messages(last: $n) { edges { cursor } } } }","variables":{"room":` + quote(t.room) + `,"n":` + fmt.Sprint(n) + `}}`)
	if err != nil {
		return nil, err
	}
	var r struct {
		Data struct {
			ChatRoom struct {
				Messages struct{ Edges []struct{ Cursor string } }
			}
		}
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("cursors: %w", err)
	}
	list := make([]string, 0, n)
	for _, e := range r.Data.ChatRoom.Messages.Edges {
		list = append(list, e.Cursor)
	}
	if len(list) != n {
		return nil, fmt.Errorf("cursors: %d of %d: %.300s", len(list), n, b)
	}
	return list, nil
}

// herd lets readers come at once, each behind another of the last missed messages and each until it has the
// newest one. While live is set, messages come at 50 a second to those who are there.
func (c *crowd) herd(readers, missed, size int, live bool) (herdResult, error) {
	w, err := newWriter(c.t)
	if err != nil {
		return herdResult{}, err
	}
	defer func() { _ = w.c.Close() }()
	var acks ackTimes
	for range missed {
		if err := c.send(w, size, &acks); err != nil {
			return herdResult{}, err
		}
	}
	c.settle(10 * time.Second)
	cursors, err := c.t.cursors(min(missed, 1000))
	if err != nil {
		return herdResult{}, err
	}
	newest := int64(0)
	for _, s := range c.byFd {
		newest = max(newest, s.last)
		break
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	if live {
		c.each = histogram{}
		c.measuring.Store(true)
		go func() { stopped <- c.trickle(w, size, stop) }()
		time.Sleep(200 * time.Millisecond)
	}
	s0, server, generator, start := c.t.readStats(), cpuSeconds(c.t.pid()), cpuSeconds(os.Getpid()), time.Now()
	subs, err := parallel(readers, func(i int) (*subscriber, error) { return c.t.catchUp(cursors[i*(len(cursors)-1)/readers], newest) })
	r := herdResult{readers: readers, missed: missed, wall: time.Since(start).Seconds(), liveP99: -1,
		server: cpuSeconds(c.t.pid()) - server, generator: cpuSeconds(os.Getpid()) - generator}
	if live {
		close(stop)
		err = errors.Join(err, <-stopped)
		c.settle(10 * time.Second)
		c.measuring.Store(false)
		r.liveP99 = c.each.quantile(.99)
	}
	if err != nil {
		return r, err
	}
	r.executions = c.t.readStats().Executions - s0.Executions
	for _, s := range subs {
		r.delivered += s.n
		if s.last < newest {
			r.incomplete++
		}
		_ = s.fd.Close()
	}
	return r, nil
}

func (c *crowd) trickle(w *writer, size int, stop chan struct{}) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var acks ackTimes
	for {
		select {
		case <-stop:
			return nil
		case <-tick.C:
			if err := c.send(w, size, &acks); err != nil {
				return err
			}
		}
	}
}

// catchUp follows from a cursor until newest has come.
func (t *target) catchUp(cursor string, newest int64) (*subscriber, error) {
	var faults int
	var s *subscriber
	early := &subscriber{}
	count := func(p []byte) {
		early.scan(t, p, func(_, _ int64, order int) {
			if order != 0 {
				faults++
			}
		})
	}
	s, err := t.follow(cursor, count)
	if err != nil {
		return nil, err
	}
	s.last, s.n = early.last, early.n
	early = s
	buf := make([]byte, 256<<10)
	for s.last < newest {
		_, p, used := parseFrame(s.rest)
		if used > 0 {
			count(p)
			s.rest = s.rest[used:]
			continue
		}
		n, err := s.fd.Read(buf)
		if err != nil {
			return nil, fmt.Errorf("catch up: %w", err)
		}
		s.rest = append(s.rest, buf[:n]...)
	}
	if faults > 0 {
		return nil, fmt.Errorf("catch up: %d gaps or repeats", faults)
	}
	return s, nil
}
