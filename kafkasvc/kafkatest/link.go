package kafkatest

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Link is one client's way to the cluster. Give each instance its own, to cut one off from the others.
type Link struct {
	cluster *Cluster

	mu     sync.Mutex
	rules  []*Armed
	conns  map[*conn]struct{}
	cut    bool
	silent chan struct{} // open while the link is silent; nil: it is not
}

// NewLink adds a way to the cluster.
func (c *Cluster) NewLink() *Link {
	return &Link{cluster: c, conns: make(map[*conn]struct{})}
}

// Arm adds a fault. The first rule that matches a request is applied.
func (l *Link) Arm(r Rule) *Armed {
	a := &Armed{rule: r, link: l, left: r.Count}
	if r.Count == 0 {
		a.left = 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rules = append(l.rules, a)
	return a
}

// Cut closes all connections and refuses new ones until Heal.
func (l *Link) Cut() {
	l.mu.Lock()
	l.cut = true
	l.mu.Unlock()
	l.CloseConns()
}

// CloseConns closes all connections once; new ones are welcome.
func (l *Link) CloseConns() {
	for _, c := range l.open() {
		_ = c.Close()
	}
}

// Silence makes the link carry nothing, as if a cable were pulled: nobody is told, requests and answers wait, and
// new connections hang until their context ends. Heal delivers what still waits.
func (l *Link) Silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.silent == nil {
		l.silent = make(chan struct{})
	}
}

// Heal ends Cut and Silence.
func (l *Link) Heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = false
	if l.silent != nil {
		close(l.silent)
		l.silent = nil
	}
}

// Conns says how many connections are open.
func (l *Link) Conns() int { return len(l.open()) }

// Dial connects to a broker. It has the form that every Kafka client takes.
func (l *Link) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	for {
		cut, silent := l.state()
		if cut {
			return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("connection refused: the link to %s is cut", address)}
		}
		if silent == nil {
			break
		}
		select {
		case <-silent:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	inner, err := l.cluster.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, link: l, address: address, closed: make(chan struct{})}
	l.mu.Lock()
	l.conns[c] = struct{}{}
	l.mu.Unlock()
	return c, nil
}

func (l *Link) state() (cut bool, silent chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cut, l.silent
}

func (l *Link) open() []*conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*conn, 0, len(l.conns))
	for c := range l.conns {
		all = append(all, c)
	}
	return all
}

func (l *Link) drop(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// judge finds the rule for a request and uses it up.
func (l *Link) judge(q *request) *Rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.rules {
		if a.left == 0 || !a.rule.matches(q) {
			continue
		}
		a.seen++
		if a.rule.Every > 1 && a.seen%a.rule.Every != 0 {
			continue
		}
		if a.left > 0 {
			a.left--
		}
		a.hits.Add(1)
		return &a.rule
	}
	return nil
}

// replay sends a frame over a connection of its own after a while and waits for the answer, so that the cluster
// has surely carried it out.
func (l *Link) replay(address string, frame []byte, after time.Duration) {
	if after > 0 {
		time.Sleep(after)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := l.cluster.dial(ctx, "tcp", address)
	if err != nil {
		return // the cluster is gone, and nothing lands any more
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second)) // a late answer only
	if _, err := c.Write(frame); err != nil {
		return
	}
	q := parse(frame[4:])
	l.cluster.count.add(&q)
	_, _ = io.ReadFull(c, make([]byte, 8))
}
