package httpserver

import (
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"sync"

	"github.com/chathome/chathome/server/peers"
)

// connections bounds the connections that net/http holds: each has a goroutine, buffers and a descriptor before
// it has said a word. One over the bound is closed at once. A connection that became a socket or an event stream
// counts no more: its transport has limits of its own, with answers that clients understand.
type connections struct {
	limiter *peers.Limiter
	proxies peers.Proxies

	mu   sync.Mutex
	open map[net.Conn]func() // what gives the place back
}

func newConnections(l Limits, proxies peers.Proxies) *connections {
	return &connections{
		limiter: peers.NewLimiter(l.Connections, l.ConnectionsPerAddress),
		proxies: proxies,
		open:    map[net.Conn]func(){},
	}
}

// changed is http.Server's ConnState. It is called for a new connection before anything is read.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		runtime.Gosched() // on the goroutine that accepts: whoever is in goes first, a crowd waits in the kernel
		release, ok := c.limiter.Acquire(c.address(conn))
		if !ok {
			_ = conn.Close()
			return
		}
		c.mu.Lock()
		c.open[conn] = release
		c.mu.Unlock()
	case http.StateClosed, http.StateHijacked:
		c.mu.Lock()
		release := c.open[conn]
		delete(c.open, conn)
		c.mu.Unlock()
		if release != nil {
			release()
		}
	}
}

// address is invalid for a proxy: it stands for many.
func (c *connections) address(conn net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	if a := at.Addr().Unmap(); !c.proxies.Trusted(a) {
		return a
	}
	return netip.Addr{}
}
