package kafkalog

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/sasl"
)

// Config says how to reach a cluster.
type Config struct {
	// Brokers are host:port addresses to begin with; the cluster names the others.
	Brokers []string
	// Dial opens connections; nil is the system's network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS and SASL are off when nil. TLS is asked for each connection, so that renewed certificates are picked up.
	// Where it names no server, the broker's host is taken.
	TLS  func() *tls.Config
	SASL sasl.Mechanism
	// ClientID is what brokers write into their logs and quotas.
	ClientID string
	// RPCTimeout bounds a request that is not bounded otherwise, the wait for one broker while others could be
	// asked, and the silence in the middle of an answer. Default 1 s.
	RPCTimeout time.Duration
	// Log gets a line where something happened that no caller is told. Default: nowhere.
	Log *slog.Logger
}

// ErrClosed is what a closed Cluster and its Readers answer.
var ErrClosed = errors.New("kafka: closed")

// Cluster is a Kafka cluster. It is safe for concurrent use. Nothing is dialled before it is needed.
type Cluster struct {
	cfg Config
	ctx context.Context //nolint:containedctx // the life of the Cluster, not of a call: ends with Close, bounds what no caller bounds
	end context.CancelFunc

	routes routes
	pool   pool

	failures failures

	mu     sync.Mutex
	open   map[*trackedConn]struct{}
	closed bool
	tasks  sync.WaitGroup // metadata requests, which outlive the caller that started them
}

// New describes a cluster; it does not dial. Faults in the list of brokers show at the first request.
func New(cfg Config) *Cluster {
	if cfg.Dial == nil {
		cfg.Dial = new(net.Dialer).DialContext
	}
	if cfg.RPCTimeout <= 0 {
		cfg.RPCTimeout = time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{cfg: cfg, open: make(map[*trackedConn]struct{})}
	c.ctx, c.end = context.WithCancel(context.Background())
	c.routes.init(cfg.Brokers)
	return c
}

// Close closes every connection, which ends every call that is under way, and waits for what it started itself.
func (c *Cluster) Close() {
	c.mu.Lock()
	c.closed = true
	conns := make([]*trackedConn, 0, len(c.open))
	for t := range c.open {
		conns = append(conns, t)
	}
	c.mu.Unlock()
	c.end()
	for _, t := range conns {
		_ = t.Close() // a connection that fails to close is closed all the same
	}
	c.tasks.Wait()
}

// trackedConn is a connection that Close can find.
type trackedConn struct {
	net.Conn
	cluster *Cluster
}

func (t *trackedConn) Close() error {
	t.cluster.mu.Lock()
	delete(t.cluster.open, t)
	t.cluster.mu.Unlock()
	return t.Conn.Close()
}

func (c *Cluster) track(n net.Conn) (*trackedConn, error) {
	t := &trackedConn{Conn: n, cluster: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = n.Close()
		return nil, ErrClosed
	}
	c.open[t] = struct{}{}
	return t, nil
}

// task runs fn beside the callers; Close waits for it. It returns false after Close.
func (c *Cluster) task(fn func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.tasks.Go(fn)
	return true
}
