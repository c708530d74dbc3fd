package peers

import (
	"net/netip"
	"sync"
)

// Limiter bounds how many of something there are at once, altogether and for each address. One Limiter can
// serve several transports.
type Limiter struct {
	total, each int

	mu    sync.Mutex
	held  int
	byKey map[netip.Prefix]int
}

// NewLimiter allows total altogether and each for one address; 0 is no bound.
func NewLimiter(total, each int) *Limiter {
	return &Limiter{total: total, each: each, byKey: map[netip.Prefix]int{}}
}

// Acquire takes one for a, which may be invalid: then only the bound for all holds. release gives it back and may be
// called more than once. ok is false where a bound is reached; nothing is taken then.
func (l *Limiter) Acquire(a netip.Addr) (release func(), ok bool) { return l.AcquireN(a, 1) }

// AcquireN takes n at once, or nothing.
func (l *Limiter) AcquireN(a netip.Addr, n int) (release func(), ok bool) {
	k := key(a)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total > 0 && l.held+n > l.total || l.each > 0 && a.IsValid() && l.byKey[k]+n > l.each {
		return nil, false
	}
	l.held += n
	l.byKey[k] += n
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held -= n
		if l.byKey[k] -= n; l.byKey[k] == 0 {
			delete(l.byKey, k)
		}
	}), true
}

// Held is how many are taken.
func (l *Limiter) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// key: whoever has an IPv6 address mostly has a whole /64 of them.
func key(a netip.Addr) netip.Prefix {
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // the zero Prefix for an invalid address
	return p
}
