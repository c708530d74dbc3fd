// Package broker runs a Kafka broker inside the process, for one machine and for trying chathome out.
//
// It is franz-go's kfake, which its authors wrote for tests: one broker, one thread, no replicas, everything in
// memory with a copy on disk. What it has acknowledged survives the death of the process, but a power cut may take
// the last moments along. It is never production storage.
//
// Embedded is reachable by nobody outside the process. Listen opens a loopback port and refuses any other address:
// the broker has no authentication. Since a single unknown request would bring kfake down, strangers on the port are
// looked over before it sees them (guard.go).
package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kfake"
)

// Config says what the broker keeps and allows. The zero value keeps everything in memory.
type Config struct {
	// DataDir is where the logs lie; "" keeps them in memory only. One process uses it at a time.
	DataDir string
	// MinSession is the shortest session timeout of a group member. Default 1 s.
	MinSession time.Duration
	Log        *slog.Logger
}

// ErrInUse: another process runs a broker on the same data directory.
var ErrInUse = errors.New("another process uses this data directory")

// Broker is a running broker.
type Broker struct {
	cluster *kfake.Cluster
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	addrs   []string
	lock    io.Closer
}

// Embedded starts a broker that only this process reaches: through Dial.
func Embedded(cfg Config) (*Broker, error) {
	vn := new(kfake.VirtualNetwork)
	const port = 9092 // of a network of its own
	return start(cfg, vn.DialContext, kfake.Ports(port), kfake.ListenFn(vn.Listen))
}

// Listen starts a broker on a loopback address, host:port. Any other address is refused. Port 0 draws one.
func Listen(cfg Config, address string) (*Broker, error) {
	ln, err := listenLoopback(address)
	if err != nil {
		return nil, fmt.Errorf("listen for Kafka clients: %w", err)
	}
	given := func(string, string) (net.Listener, error) { return guarded{ln}, nil }
	b, err := start(cfg, new(net.Dialer).DialContext, kfake.NumBrokers(1), kfake.ListenFn(given))
	if err != nil {
		return nil, errors.Join(err, ignoreClosed(ln.Close()))
	}
	return b, nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// NotLoopbackError: the broker has no authentication, so no other machine may reach it.
type NotLoopbackError struct{ Address string }

func (e *NotLoopbackError) Error() string {
	return fmt.Sprintf("%s can be reached from other machines, and this broker asks nobody for a password: use 127.0.0.1, [::1] or localhost", e.Address)
}

func listenLoopback(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	// Judge before listening: the port must not be open even for a moment. Names may resolve to anything.
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, &NotLoopbackError{Address: address}
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if a, ok := ln.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return nil, errors.Join(&NotLoopbackError{Address: ln.Addr().String()}, ln.Close())
	}
	return ln, nil
}

func start(cfg Config, dial func(context.Context, string, string) (net.Conn, error), opts ...kfake.Opt) (*Broker, error) {
	if cfg.MinSession <= 0 {
		cfg.MinSession = time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	b := &Broker{dial: dial}
	if cfg.DataDir != "" {
		if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
			return nil, fmt.Errorf("make the broker's data directory: %w", err)
		}
		lock, err := vfs.Default.Lock(filepath.Join(cfg.DataDir, "LOCK"))
		if err != nil {
			return nil, fmt.Errorf("lock the broker's data directory %s: %w: %w", cfg.DataDir, ErrInUse, err)
		}
		b.lock = lock
		opts = append(opts, kfake.DataDir(filepath.Join(cfg.DataDir, "log")))
	}
	opts = append(opts,
		kfake.WithLogger(logger{cfg.Log}),
		kfake.GroupMinSessionTimeout(cfg.MinSession),
		// The option alone does not show in the settings that clients ask for.
		kfake.BrokerConfigs(map[string]string{"group.min.session.timeout.ms": strconv.FormatInt(cfg.MinSession.Milliseconds(), 10)}),
	)
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		err = fmt.Errorf("start the embedded broker: %w", err)
		if b.lock != nil {
			err = errors.Join(err, b.lock.Close())
		}
		return nil, err
	}
	b.cluster, b.addrs = cluster, cluster.ListenAddrs()
	return b, nil
}

// Addrs are the broker's addresses, for Dial.
func (b *Broker) Addrs() []string { return b.addrs }

// Dial connects to the broker.
func (b *Broker) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return b.dial(ctx, network, address)
}

// closeLimit bounds the stop; a disk may hang.
const closeLimit = 5 * time.Second

// Close stops the broker and writes what it holds. It returns within a few seconds, with an error where the disk did
// not keep up; what was acknowledged is in its files even then.
func (b *Broker) Close() error {
	done := make(chan struct{})
	go func() {
		b.cluster.Close()
		close(done)
	}()
	var err error
	limit := time.NewTimer(closeLimit)
	defer limit.Stop()
	select {
	case <-done:
	case <-limit.C:
		err = fmt.Errorf("the embedded broker did not stop within %v", closeLimit)
	}
	if b.lock != nil {
		err = errors.Join(err, b.lock.Close())
	}
	return err
}

// logger hands on what the broker finds worth a warning. Its text names topics and files, never what users wrote.
type logger struct{ to *slog.Logger }

func (l logger) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.to.Error("embedded broker", "err", fmt.Sprintf(format, args...))
	case kfake.LogLevelWarn:
		l.to.Warn("embedded broker", "err", fmt.Sprintf(format, args...))
	}
}
