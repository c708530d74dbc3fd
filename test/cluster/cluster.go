package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config says what to run. The zero value of each field but Program is usable.
type Config struct {
	Program   string   // path of the built chathome
	Dir       string   // for data and logs; "": a temporary one, which Close removes
	Instances int      // default 3
	Links     bool     // a proxy between each instance and the broker
	Brokers   []string // a Kafka that is there already; none: the embedded broker as a process
	Serve     []string // further flags of each instance
	// DirOf says where an instance keeps its data; "" or nil: below Dir.
	DirOf func(name string) string
}

// Cluster is a broker and instances. They are not started by New.
type Cluster struct {
	Dir       string
	Broker    *Broker // nil with Config.Brokers
	Instances []*Instance

	brokers   []string
	guard     *guard
	temporary bool
	closed    sync.Once
}

// Broker is the embedded broker as a process.
type Broker struct {
	*Process
	Address string
}

// Start starts it and waits until it takes connections.
func (b *Broker) Start(ctx context.Context) error {
	if err := b.start(); err != nil {
		return err
	}
	for {
		conn, err := (&net.Dialer{Timeout: probe}).DialContext(ctx, "tcp", b.Address)
		if err == nil {
			conn.Close()
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-b.Ended():
			return fmt.Errorf("the broker has ended: %s; log %s", b.How(), b.LogFile)
		case <-ctx.Done():
			return fmt.Errorf("wait for the broker: %w; log %s", err, b.LogFile)
		}
	}
}

// New lays a cluster out. Call Close in any case: it ends all processes.
func New(cfg Config) (*Cluster, error) {
	if cfg.Instances <= 0 {
		cfg.Instances = 3
	}
	program, err := filepath.Abs(cfg.Program)
	if err != nil {
		return nil, fmt.Errorf("find the program: %w", err)
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("find the program (make build makes it): %w", err)
	}
	c := &Cluster{Dir: cfg.Dir, brokers: cfg.Brokers, temporary: cfg.Dir == ""}
	if c.temporary {
		c.Dir, err = os.MkdirTemp("", "chathome-cluster")
	} else {
		c.Dir, err = filepath.Abs(cfg.Dir)
		err = errors.Join(err, os.MkdirAll(c.Dir, 0o700))
	}
	if err != nil {
		return nil, fmt.Errorf("make a directory for the cluster: %w", err)
	}
	if c.guard, err = newGuard(); err != nil {
		return nil, err
	}
	if err := c.lay(cfg, program); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) lay(cfg Config, program string) error {
	ports, err := freePorts(cfg.Instances + 1)
	if err != nil {
		return err
	}
	if len(c.brokers) == 0 {
		address := "127.0.0.1:" + strconv.Itoa(ports[cfg.Instances])
		c.brokers = []string{address}
		c.Broker = &Broker{Address: address, Process: c.process(program, "broker",
			"broker", "--listen", address, "--data-dir", filepath.Join(c.Dir, "broker"))}
	}
	for n := range cfg.Instances {
		name := string(rune('a' + n))
		i := &Instance{URL: "http://127.0.0.1:" + strconv.Itoa(ports[n]), Dir: filepath.Join(c.Dir, name)}
		if cfg.DirOf != nil {
			if dir := cfg.DirOf(name); dir != "" {
				i.Dir = dir
			}
		}
		brokers := c.brokers
		if cfg.Links {
			if i.Link, err = NewLink(); err != nil {
				return err
			}
			if brokers, err = i.Link.ways(c.brokers); err != nil {
				return errors.Join(err, i.Link.Close())
			}
		}
		var origins []string
		for m, port := range ports[:cfg.Instances] {
			if m != n {
				origins = append(origins, fmt.Sprintf("http://127.0.0.1:%d,http://localhost:%d", port, port))
			}
		}
		args := []string{"serve", "--brokers", strings.Join(brokers, ","), "--listen", strings.TrimPrefix(i.URL, "http://"),
			"--instance-id", name, "--data-dir", i.Dir}
		if len(origins) > 0 {
			args = append(args, "--allowed-origins", strings.Join(origins, ","))
		}
		i.Process = c.process(program, name, append(args, cfg.Serve...)...)
		c.Instances = append(c.Instances, i)
	}
	return nil
}

func (c *Cluster) process(program, name string, args ...string) *Process {
	return &Process{Name: name, LogFile: filepath.Join(c.Dir, name+".log"), program: program, args: args, guard: c.guard}
}

// Start starts the broker and all instances and waits until they are ready.
func (c *Cluster) Start(ctx context.Context) error {
	if c.Broker != nil {
		if err := c.Broker.Start(ctx); err != nil {
			return err
		}
	}
	for _, i := range c.Instances {
		if err := i.Start(); err != nil {
			return err
		}
	}
	return c.WaitReady(ctx)
}

// WaitReady waits until all instances that run are ready.
func (c *Cluster) WaitReady(ctx context.Context) error {
	for _, i := range c.Instances {
		if i.Running() && !i.Paused() {
			if err := i.WaitReady(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Brokers are the addresses of Kafka itself, around all links.
func (c *Cluster) Brokers() []string { return c.brokers }

// URLs are those of all instances, running or not.
func (c *Cluster) URLs() []string {
	urls := make([]string, len(c.Instances))
	for n, i := range c.Instances {
		urls[n] = i.URL
	}
	return urls
}

// Stop asks all instances, then the broker, to end, each within limit.
func (c *Cluster) Stop(limit time.Duration) error {
	errs := make([]error, len(c.Instances))
	var wg sync.WaitGroup
	for n, i := range c.Instances {
		wg.Go(func() {
			if i.Paused() {
				errs[n] = i.Resume()
			}
			errs[n] = errors.Join(errs[n], i.Stop(limit))
		})
	}
	wg.Wait()
	if c.Broker != nil {
		errs = append(errs, c.Broker.Stop(limit))
	}
	return errors.Join(errs...)
}

// Close kills what still runs, and removes the directory if it is a temporary one.
func (c *Cluster) Close() error {
	var errs []error
	c.closed.Do(func() {
		for _, i := range c.Instances {
			errs = append(errs, i.Kill())
			if i.Link != nil {
				errs = append(errs, i.Link.Close())
			}
		}
		if c.Broker != nil {
			errs = append(errs, c.Broker.Kill())
		}
		c.guard.close()
		if c.temporary {
			errs = append(errs, os.RemoveAll(c.Dir))
		}
	})
	return errors.Join(errs...)
}

// Ports below those that systems give to outgoing connections: a process that comes back must find its own free.
const firstPort, lastPort = 21000, 31000

// freePorts finds n ports that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		ln, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		defer ln.Close() // held until all are found: none twice
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("find free ports: none in a thousand tries")
}
