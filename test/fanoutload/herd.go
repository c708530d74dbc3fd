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
	generator       float64 // likewise
	executions      int64
	incomplete      int
	live            *histogram // of those who stayed; nil if nothing was sent to them
	late            *histogram // of the generator itself
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

// missing writes what a herd is behind: cursors behind as many messages, the oldest first, missed messages after them,
// and the serial of the newest.
func (c *crowd) missing(w *writer, readers, missed, size int) (cursors []string, newest int64, err error) {
	write := func(n int) error {
		var acks ackTimes
		for range n {
			if err := c.send(w, size, &acks); err != nil {
				return err
			}
		}
		c.settle(10 * time.Second)
		return nil
	}
	if err := write(readers); err != nil {
		return nil, 0, err
	}
	if cursors, err = c.t.cursors(readers); err != nil {
		return nil, 0, err
	}
	if err := write(missed); err != nil {
		return nil, 0, err
	}
	for _, s := range c.byFd {
		newest = max(newest, s.last)
		break
	}
	return cursors, newest, nil
}

// herd lets readers come at once, each behind another message and each with missed messages or more to come, until
// it has the newest one. While live is set, messages come at 50 a second to those who are there.
func (c *crowd) herd(readers, missed, size int, live bool) (herdResult, error) {
	w, err := newWriter(c.t)
	if err != nil {
		return herdResult{}, err
	}
	defer func() { _ = w.c.Close() }()
	cursors, newest, err := c.missing(w, readers, missed, size)
	if err != nil {
		return herdResult{}, err
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	if live {
		c.each = histogram{}
		c.measuring.Store(true)
		go func() { stopped <- c.trickle(w, size, stop) }()
		time.Sleep(200 * time.Millisecond)
	}
	late := watchLate()
	s0, server, generator, start := c.t.readStats(), cpuSeconds(c.t.pid()), cpuSeconds(os.Getpid()), time.Now()
	subs, err := c.t.comeBack(cursors, newest-int64(readers+missed)+1, newest)
	r := herdResult{readers: readers, missed: missed, wall: time.Since(start).Seconds(), late: late(),
		server: cpuSeconds(c.t.pid()) - server, generator: cpuSeconds(os.Getpid()) - generator}
	if live {
		close(stop)
		err = errors.Join(err, <-stopped)
		c.settle(10 * time.Second)
		c.measuring.Store(false)
		live := c.each
		r.live = &live
	}
	r.executions = c.t.readStats().Executions - s0.Executions
	r.delivered, r.incomplete = leave(subs, newest)
	return r, err
}

// leave closes the sockets of those who came back, and counts what they got and who lacks something up to newest.
func leave(subs []*subscriber, newest int64) (delivered int64, incomplete int) {
	for _, s := range subs {
		delivered += s.n
		if s.last < newest {
			incomplete++
		}
		_ = s.fd.Close()
	}
	return delivered, incomplete
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

func (r herdResult) String() string {
	s := fmt.Sprintf("herd: %d come back at once, each from another cursor and at least %d messages behind: %d deliveries in %.1f s, %.2f s of the server's processor time (generator %.2f), %d incomplete",
		r.readers, r.missed, r.delivered, r.wall, r.server, r.generator, r.incomplete)
	if r.executions > 0 {
		s += fmt.Sprintf(", %d executions", r.executions)
	}
	if r.live != nil {
		s += fmt.Sprintf("; meanwhile 50 messages/s to those who stayed: p50 %.1f p99 %.1f max %.1f ms", r.live.quantile(.5), r.live.quantile(.99), r.live.quantile(1))
	}
	return s + fmt.Sprintf("; the generator itself runs late by p99 %.1f ms", r.late.quantile(.99))
}
