package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Link is the way of one instance to all brokers: a TCP proxy that can do what networks do. It forwards whole
// requests and answers, so that a fault never tears one.
type Link struct {
	// How often faults really bit.
	Resets    atomic.Int64 // connections that were reset
	Delayed   atomic.Int64 // requests and answers that came late
	Swallowed atomic.Int64 // requests and answers that never came
	LostAcks  atomic.Int64 // answers to writes that were lost after the broker had written

	mu      sync.Mutex
	listen  map[string]net.Listener // by the broker's address
	conns   map[*pair]struct{}
	state   state
	delay   time.Duration
	changed chan struct{} // closed at each change of the state
	acks    int           // answers to writes that are to be lost
	wg      sync.WaitGroup
}

type state int

const (
	open    state = iota
	cut           // connections are reset, new ones at once
	stalled       // nothing moves; what waits is delivered later
	silent        // nothing moves, and what is sent is gone: a half-open link
	closed
)

// NewLink makes a way without faults.
func NewLink() (*Link, error) {
	return &Link{listen: map[string]net.Listener{}, conns: map[*pair]struct{}{}, changed: make(chan struct{})}, nil
}

// ways returns an address of this link for each of the brokers.
func (l *Link) ways(brokers []string) ([]string, error) {
	ways := make([]string, len(brokers))
	for i, b := range brokers {
		var err error
		if ways[i], err = l.way(b); err != nil {
			return nil, err
		}
	}
	return ways, nil
}

// way returns the address of this link that leads to the broker.
func (l *Link) way(broker string) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == closed {
		return "", net.ErrClosed
	}
	if ln := l.listen[broker]; ln != nil {
		return ln.Addr().String(), nil
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen for a link to %s: %w", broker, err)
	}
	l.listen[broker] = ln
	l.wg.Go(func() { l.accept(ln, broker) })
	return ln.Addr().String(), nil
}

func (l *Link) set(s state, d time.Duration) {
	l.mu.Lock()
	if l.state == closed {
		l.mu.Unlock()
		return
	}
	l.state, l.delay = s, d
	close(l.changed)
	l.changed = make(chan struct{})
	var reset []*pair
	if s == cut || s == closed {
		for p := range l.conns {
			reset = append(reset, p)
		}
	}
	l.mu.Unlock()
	for _, p := range reset {
		l.reset(p)
	}
}

func (l *Link) reset(p *pair) {
	if p.reset() {
		l.Resets.Add(1)
	}
}

// Cut resets all connections, and new ones, until Heal.
func (l *Link) Cut() { l.set(cut, 0) }

// Stall holds everything that is sent in both directions until Heal, which delivers it: late writes.
func (l *Link) Stall() { l.set(stalled, 0) }

// Silence loses everything that is sent in both directions and tells nobody. Connections that lost something stay
// silent after Heal, as half-open ones do.
func (l *Link) Silence() { l.set(silent, 0) }

// Slow delays each request and answer by d.
func (l *Link) Slow(d time.Duration) { l.set(open, d) }

// Heal ends all faults of the link.
func (l *Link) Heal() { l.set(open, 0) }

// LoseAcks resets the connection instead of handing on the answer, for the next n writes.
func (l *Link) LoseAcks(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acks = n
}

// Close ends the link.
func (l *Link) Close() error {
	l.mu.Lock()
	var errs []error
	for _, ln := range l.listen {
		errs = append(errs, ln.Close())
	}
	l.mu.Unlock()
	l.set(closed, 0)
	l.wg.Wait()
	return errors.Join(errs...)
}

func (l *Link) accept(ln net.Listener, broker string) {
	for {
		in, err := ln.Accept()
		if err != nil {
			return // closed
		}
		l.wg.Go(func() { l.serve(in, broker) })
	}
}

// pair is one connection through the link.
type pair struct {
	in, out net.Conn
	dead    atomic.Bool // something was lost: nothing passes any more
	gone    chan struct{}
	once    sync.Once

	mu      sync.Mutex
	waiting map[int32]call // requests whose answers matter to the link
}

// reset ends both connections; false: they had ended.
func (p *pair) reset() (did bool) {
	p.once.Do(func() {
		did = true
		for _, c := range []net.Conn{p.in, p.out} {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // RST instead of FIN
			}
			_ = c.Close()
		}
		close(p.gone)
	})
	return did
}

func (l *Link) serve(in net.Conn, broker string) {
	out, err := net.DialTimeout("tcp", broker, probe)
	if err != nil { // the broker is away: so is the link
		if tcp, ok := in.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = in.Close()
		return
	}
	p := &pair{in: in, out: out, gone: make(chan struct{}), waiting: map[int32]call{}}
	l.mu.Lock()
	l.conns[p] = struct{}{}
	bad := l.state == cut || l.state == closed
	l.mu.Unlock()
	if bad {
		l.reset(p)
	}
	var both sync.WaitGroup
	both.Go(func() {
		l.pump(p, in, out, func(frame []byte) ([]byte, bool) { p.asked(frame); return frame, true })
	})
	both.Go(func() { l.pump(p, out, in, func(frame []byte) ([]byte, bool) { return l.answered(p, frame) }) })
	both.Wait()
	l.mu.Lock()
	delete(l.conns, p)
	l.mu.Unlock()
}

// maxFrame bounds what is taken for one request or answer.
const maxFrame = 256 << 20

// pump forwards frames until one side ends.
func (l *Link) pump(p *pair, from io.Reader, to io.Writer, see func([]byte) ([]byte, bool)) {
	defer p.reset()
	for {
		frame := make([]byte, 4)
		if _, err := io.ReadFull(from, frame); err != nil {
			return
		}
		n := binary.BigEndian.Uint32(frame)
		if n > maxFrame {
			return
		}
		frame = append(frame, make([]byte, n)...)
		if _, err := io.ReadFull(from, frame[4:]); err != nil {
			return
		}
		frame, ok := see(frame)
		if !ok || !l.pass(p) {
			return
		}
		if p.dead.Load() {
			l.Swallowed.Add(1)
			continue
		}
		if _, err := to.Write(frame); err != nil {
			return
		}
	}
}

// pass waits as the state wants it; false: the connection is over.
func (l *Link) pass(p *pair) bool {
	late := false
	for {
		l.mu.Lock()
		s, d, changed := l.state, l.delay, l.changed
		l.mu.Unlock()
		switch s {
		case cut, closed:
			return false
		case silent:
			p.dead.Store(true)
			return true
		case stalled:
			if !late {
				late = true
				l.Delayed.Add(1)
			}
			select {
			case <-changed:
				continue
			case <-p.gone:
				return false
			}
		default:
			if d > 0 && !late {
				l.Delayed.Add(1)
				select {
				case <-time.After(d):
				case <-p.gone:
					return false
				}
			}
			return true
		}
	}
}
