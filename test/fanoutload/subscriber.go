package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
)

// subscriber is one socket that follows the room.
type subscriber struct {
	fd   socket
	rest []byte // of a frame that is not whole yet
	last int64  // serial or offset
	n    int64  // messages
	open bool   // upgraded; for those that come back
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func (t *target) handshake() string {
	return "GET " + t.socketPath + " HTTP/1.1\r\nHost: " + t.addr + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n" + t.socketHeader + "\r\n"
}

// upgrade opens a WebSocket.
func upgrade(t *target) (*subscriber, error) {
	fd, err := dial(t.addr, [4]byte{127, 0, 0, 1})
	if err != nil {
		return nil, err
	}
	if _, err := fd.Write([]byte(t.handshake())); err != nil {
		return nil, fmt.Errorf("upgrade: %w", err)
	}
	buf := make([]byte, 0, 8192)
	for !bytes.Contains(buf, []byte("\r\n\r\n")) {
		n, err := fd.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return nil, fmt.Errorf("upgrade: %w", err)
		}
		buf = buf[:len(buf)+n]
	}
	k := bytes.Index(buf, []byte("\r\n\r\n"))
	if !bytes.Contains(buf[:k], []byte(" 101 ")) {
		return nil, fmt.Errorf("upgrade refused: %s", buf[:k])
	}
	return &subscriber{fd: fd, rest: bytes.Clone(buf[k+4:])}, nil
}

// ask sends a message and waits for an answer that has want in it.
func (s *subscriber) ask(message, want string) error {
	if _, err := s.fd.Write(frame(opText, []byte(message))); err != nil {
		return fmt.Errorf("ask: %w", err)
	}
	buf := make([]byte, 8192)
	for {
		op, p, used := parseFrame(s.rest)
		if used > 0 {
			if bytes.Contains(p, []byte(`"error`)) || op == opClose {
				return fmt.Errorf("answer: %.300s", p)
			}
			found := bytes.Contains(p, []byte(want))
			s.rest = bytes.Clone(s.rest[used:])
			if found {
				return nil
			}
			continue
		}
		n, err := s.fd.Read(buf)
		if err != nil {
			return fmt.Errorf("wait for %s: %w", want, err)
		}
		s.rest = append(s.rest, buf[:n]...)
	}
}

// follow opens a subscriber that has the room's present state.
func (t *target) follow() (*subscriber, error) {
	s, err := upgrade(t)
	if err != nil {
		return nil, err
	}
	for _, step := range t.subscribe("") {
		if err := s.ask(step[0], step[1]); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// flight is a message that was sent and has not reached all.
type flight struct{ left int32 }

const flights = 1 << 16

// crowd is the subscribers and what they have seen.
type crowd struct {
	t       *target
	byFd    map[int32]*subscriber
	epoll   int
	flights [flights]flight

	measuring             atomic.Bool
	delivered, frames     atomic.Int64
	bytes                 atomic.Int64
	gaps, repeats, closed atomic.Int64
	complete              atomic.Int64 // messages that everybody has
	each, last            histogram    // written by the one reader
	sequence              atomic.Int64 // of messages sent
}

func newCrowd(t *target, n int) (*crowd, error) {
	c := &crowd{t: t, byFd: map[int32]*subscriber{}}
	subs, err := parallel(n, t.follow)
	if err != nil {
		return nil, err
	}
	if c.epoll, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	for _, s := range subs {
		_ = syscall.SetNonblock(int(s.fd), true)
		c.byFd[int32(s.fd)] = s
		if err := syscall.EpollCtl(c.epoll, syscall.EPOLL_CTL_ADD, int(s.fd), &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(s.fd)}); err != nil {
			return nil, fmt.Errorf("epoll: %w", err)
		}
	}
	go c.receive()
	return c, nil
}

// parallel does f n times, 32 at once.
func parallel(n int, f func() (*subscriber, error)) ([]*subscriber, error) {
	subs, errs := make([]*subscriber, n), make(chan error, n)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 32)
	for i := range subs {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wg.Done() }()
			s, err := f()
			if err != nil {
				errs <- err
			}
			subs[i] = s
		}()
	}
	wg.Wait()
	select {
	case err := <-errs:
		return nil, err
	default:
		return subs, nil
	}
}

func (c *crowd) receive() {
	runtime.LockOSThread()
	buf := make([]byte, 4<<20)
	events := make([]syscall.EpollEvent, 256)
	for {
		k, err := syscall.EpollWait(c.epoll, events, -1)
		if err != nil {
			continue
		}
		var messages, frames, bytesIn int64
		measuring := c.measuring.Load()
		for _, e := range events[:k] {
			s := c.byFd[e.Fd]
			h := copy(buf, s.rest)
			n, err := syscall.Read(int(e.Fd), buf[h:])
			if err == syscall.EAGAIN {
				continue
			}
			if err != nil || n <= 0 {
				c.closed.Add(1)
				_ = syscall.EpollCtl(c.epoll, syscall.EPOLL_CTL_DEL, int(e.Fd), nil)
				continue
			}
			at := now()
			bytesIn += int64(n)
			b := buf[:h+n]
			for {
				op, p, used := parseFrame(b)
				if used == 0 {
					break
				}
				b = b[used:]
				got := c.answer(s, op, p, at, measuring)
				messages += got
				frames++
			}
			s.rest = append(s.rest[:0], b...)
		}
		c.delivered.Add(messages)
		c.frames.Add(frames)
		c.bytes.Add(bytesIn)
	}
}

func (c *crowd) answer(s *subscriber, op byte, p []byte, at int64, measuring bool) int64 {
	switch op {
	case opPing:
		_, _ = s.fd.Write(frame(opPong, p))
	case opClose: // counted when the socket ends
	default:
		n := s.scan(c.t, p, func(sent, sequence int64, inOrder int) {
			switch {
			case inOrder > 0:
				c.gaps.Add(1)
			case inOrder < 0:
				c.repeats.Add(1)
			}
			f := &c.flights[sequence%flights]
			f.left--
			if f.left == 0 {
				c.complete.Add(1)
			}
			if measuring {
				c.each.add(at - sent)
				if f.left == 0 {
					c.last.add(at - sent)
				}
			}
		})
		if c.t.isPing(p) {
			_, _ = s.fd.Write(frame(opText, c.t.pong))
		}
		return n
	}
	return 0
}

// scan finds the texts in a message: T, 19 digits of time, S, 10 digits of sequence, a semicolon; the serial
// stands where the target says. inOrder is 0, 1 for a gap, -1 for a repeat.
func (s *subscriber) scan(t *target, m []byte, each func(sent, sequence int64, inOrder int)) (n int64) {
	for {
		i := bytes.IndexByte(m, 'T')
		if i < 0 || i+32 > len(m) {
			return n
		}
		if m[i+20] != 'S' || m[i+31] != ';' {
			m = m[i+1:]
			continue
		}
		serial := t.serialAt(m, i)
		order := 0
		if s.last > 0 && serial != s.last+1 {
			order = 1
			if serial <= s.last {
				order = -1
			}
		}
		s.last = max(s.last, serial)
		s.n++
		n++
		if each != nil {
			each(number(m[i+1:i+20]), number(m[i+21:i+31]), order)
		}
		m = m[i+32:]
	}
}

// number reads leading digits.
func number(b []byte) (v int64) {
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		v = v*10 + int64(c-'0')
	}
	return v
}
