package kafkatest

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// conn collects what a client writes into whole requests, so that a rule sees all of one before the cluster sees
// any of it.
type conn struct {
	net.Conn
	link    *Link
	address string

	wmu     sync.Mutex
	partial []byte

	mu           sync.Mutex
	loseAnswer   bool
	holdAnswer   time.Duration
	readDeadline time.Time
	once         sync.Once
	closed       chan struct{}
}

// Write never blocks on a silent link: like a kernel, it takes the bytes and keeps them.
func (c *conn) Write(p []byte) (int, error) {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	c.partial = append(c.partial, p...)
	for len(c.partial) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(c.partial))
		if len(c.partial) < n {
			break
		}
		frame := c.partial[:n:n]
		c.partial = c.partial[n:]
		if err := c.send(frame); err != nil {
			return 0, err
		}
	}
	if len(c.partial) == 0 {
		c.partial = nil
	}
	return len(p), nil
}

func (c *conn) send(frame []byte) error {
	if _, silent := c.link.state(); silent != nil {
		go func() {
			select {
			case <-silent:
				c.wmu.Lock()
				defer c.wmu.Unlock()
				_ = c.forward(frame)
			case <-c.closed:
			}
		}()
		return nil
	}
	q := parse(frame[4:])
	r := c.link.judge(&q)
	if r == nil {
		return c.forward(frame)
	}
	switch r.Action {
	case CutBefore:
		_ = c.Close()
		return io.ErrClosedPipe
	case LandLate:
		go c.link.replay(c.address, frame, r.Delay)
		_ = c.Close()
		return nil
	case Swallow:
		return nil
	case Duplicate:
		err := c.forward(frame)
		go c.link.replay(c.address, frame, r.Delay)
		return err
	case HoldRequest:
		if !c.wait(r.Delay) {
			return net.ErrClosed
		}
	case HoldAnswer:
		c.mu.Lock()
		c.holdAnswer = r.Delay
		c.mu.Unlock()
	case LoseAnswer:
		c.mu.Lock()
		c.loseAnswer = true
		c.mu.Unlock()
	}
	return c.forward(frame)
}

func (c *conn) forward(frame []byte) error {
	q := parse(frame[4:])
	c.link.cluster.count.add(&q)
	_, err := c.Conn.Write(frame)
	return err
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		return n, err
	}
	c.mu.Lock()
	lose, hold := c.loseAnswer, c.holdAnswer
	c.holdAnswer = 0
	c.mu.Unlock()
	if lose { // there is an answer, so the request was carried out
		_ = c.Close()
		return 0, io.EOF
	}
	if hold > 0 && !c.wait(hold) {
		return 0, os.ErrDeadlineExceeded
	}
	for {
		_, silent := c.link.state()
		if silent == nil {
			return n, nil
		}
		if err := c.await(silent); err != nil {
			return 0, err
		}
	}
}

// wait returns false when the connection is closed or its read deadline passes before d is over.
func (c *conn) wait(d time.Duration) bool {
	t := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(t) })
	defer timer.Stop()
	return c.await(t) == nil
}

func (c *conn) await(ch <-chan struct{}) error {
	c.mu.Lock()
	deadline := c.readDeadline
	c.mu.Unlock()
	var expired <-chan time.Time
	if !deadline.IsZero() {
		t := time.NewTimer(time.Until(deadline))
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-ch:
		return nil
	case <-expired:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return net.ErrClosed
	}
}

func (c *conn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	c.readDeadline = t
	c.mu.Unlock()
	return c.Conn.SetDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.readDeadline = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.link.drop(c)
	})
	return c.Conn.Close()
}
