package ws

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/chathome/chathome/server/auth"
	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/peers"
)

// Config of a Transport. The zero value of a number or a time means its default.
type Config struct {
	// Hub runs the operations. It must be set.
	Hub *fanout.Hub
	// Authenticate is asked once a connection. nil: auth.Everybody.
	Authenticate auth.Authenticate
	// CheckOrigin says whether the page that a browser shows may open a socket. nil: the same host only.
	CheckOrigin func(*http.Request) bool
	// Proxies are believed about a client's address.
	Proxies peers.Proxies
	// Limiter bounds connections. nil: MaxConnections and MaxPerAddress make one.
	Limiter *peers.Limiter

	// Operations bounds those of all connections, altogether and of one address; nil: it does not. They count by
	// fanout.Weight. An operation over it is refused, and its connection stays.
	Operations *peers.Limiter

	MaxConnections int // default 16,384
	MaxPerAddress  int // default 4,096: a whole company may stand behind one address
	MaxOperations  int // at once on one connection; default 100
	MaxMessage     int // bytes; default 64 KiB

	InitTimeout  time.Duration // until connection_init has come; default 3 s
	PingInterval time.Duration // a peer that is silent is found within twice this; default 12 s
	WriteTimeout time.Duration // for each piece of 16 KiB that is written; default 10 s
	ReadTimeout  time.Duration // for the rest of a message that has begun, and for Authenticate; default 10 s
	CloseTimeout time.Duration // for the client to answer a close frame; default 1 s

	// SendBuffer is what the kernel keeps for a client that does not read, in bytes. Default 64 KiB.
	SendBuffer int

	Observer Observer     // may be nil
	Log      *slog.Logger // nil: slog.Default()
}

// Observer counts what happens. Its methods must not wait.
type Observer interface {
	Opened()
	// Closed: how is one of the End constants.
	Closed(how string)
	// Refused: a connection that was not let in because of a limit or its origin.
	Refused(why string)
	// Operation: one was started; kind is query, mutation, subscription or invalid.
	Operation(kind string)
}

// How connections end, for Observer.Closed.
const (
	EndClient   = "client"    // the client closed it
	EndServer   = "server"    // with a close code: a fault of the client, an expiry, a shutdown
	EndSilent   = "silent"    // no answer to a ping
	EndSlow     = "slow"      // the client did not read
	EndReset    = "reset"     // the connection broke
	endUnknown  = ""          // not yet known
	RefusedHere = "limit"     // too many connections here or from one address
	RefusedFrom = "origin"    // by the page's origin
	RefusedStop = "shutdown"  // the server is stopping
	RefusedHow  = "handshake" // no WebSocket, or another subprotocol
)

type unobserved struct{}

func (unobserved) Opened()          {}
func (unobserved) Closed(string)    {}
func (unobserved) Refused(string)   {}
func (unobserved) Operation(string) {}

func (c Config) withDefaults() Config {
	number := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	span := func(d *time.Duration, value time.Duration) {
		if *d <= 0 {
			*d = value
		}
	}
	number(&c.MaxConnections, 16384)
	number(&c.MaxPerAddress, 4096)
	number(&c.MaxOperations, 100)
	number(&c.MaxMessage, 64<<10)
	number(&c.SendBuffer, 64<<10)
	span(&c.InitTimeout, 3*time.Second)
	span(&c.PingInterval, 12*time.Second)
	span(&c.WriteTimeout, 10*time.Second)
	span(&c.ReadTimeout, 10*time.Second)
	span(&c.CloseTimeout, time.Second)
	if c.Authenticate == nil {
		c.Authenticate = auth.Everybody
	}
	if c.CheckOrigin == nil {
		c.CheckOrigin = sameHost
	}
	if c.Limiter == nil {
		c.Limiter = peers.NewLimiter(c.MaxConnections, c.MaxPerAddress)
	}
	if c.Operations == nil {
		c.Operations = peers.NewLimiter(0, 0)
	}
	if c.Observer == nil {
		c.Observer = unobserved{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return c
}

func (c *Config) validate() error {
	if c.Hub == nil {
		return fmt.Errorf("ws: no hub")
	}
	return nil
}

func sameHost(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true // no browser
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, r.Host)
}
