package chat

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/chathome/chathome/test/check"
)

// Net is the instances that clients know, and the run that they take part in.
type Net struct {
	History *check.History
	Clock   func() check.Time // of the run

	mu      sync.Mutex
	urls    []string
	sockets map[*Socket]struct{} // of clients that write, read or subscribe
	held    time.Time            // until then subscribers do not read
}

// NewNet begins a run.
func NewNet(h *check.History) *Net {
	began := time.Now()
	return &Net{History: h, Clock: func() check.Time { return time.Since(began) }, sockets: map[*Socket]struct{}{}}
}

// Know replaces the list of instances.
func (n *Net) Know(urls ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.urls = append([]string(nil), urls...)
}

func (n *Net) any() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.urls) == 0 {
		return ""
	}
	return n.urls[rand.IntN(len(n.urls))]
}

// opened remembers a connection until it ends.
func (n *Net) opened(s *Socket) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other := range n.sockets {
		select {
		case <-other.Ended():
			delete(n.sockets, other)
		default:
		}
	}
	n.sockets[s] = struct{}{}
}

// Reset breaks about one in n of the clients' connections, and says how many.
func (n *Net) Reset(one int) (broken int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.sockets {
		select {
		case <-s.Ended():
		default:
			if rand.IntN(one) == 0 {
				s.Reset()
				broken++
			}
		}
	}
	return broken
}

// Hold keeps all subscribers from reading for a while.
func (n *Net) Hold(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = time.Now().Add(d)
}

// wait waits as long as subscribers are held.
func (n *Net) wait(ctx context.Context) {
	n.mu.Lock()
	d := time.Until(n.held)
	n.mu.Unlock()
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
}
