package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config says what cluster to start.
type Config struct {
	Version    Version    // "": the newest
	Nodes      int        // 0: one
	Properties Properties // of every broker, over the harness's own
	Secure     *Secure    // a second listener; nil: none
	Dir        string     // where it lives: disks and logs. It must be there
}

// Cluster is a set of running brokers.
type Cluster struct {
	cfg   Config
	libs  string
	nodes []*Node

	Client *kgo.Client  // over the plain listener
	Admin  *kadm.Client // the same
}

// Start starts a cluster and waits until it stores records. Stop it in every case.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.Version == "" {
		cfg.Version = Newest
	}
	if cfg.Nodes == 0 {
		cfg.Nodes = 1
	}
	libs, err := jars(ctx, cfg.Version)
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg, libs: libs}
	const portsOfNode = 3
	ports, err := freePorts(portsOfNode * cfg.Nodes)
	if err != nil {
		return nil, err
	}
	for i := range cfg.Nodes {
		p := ports[portsOfNode*i:]
		c.nodes = append(c.nodes, &Node{
			ID: i + 1, cluster: c, dir: filepath.Join(cfg.Dir, fmt.Sprintf("node%d", i+1)),
			port: p[0], controllerPort: p[1], securePort: p[2],
		})
	}
	id, err := clusterID()
	if err != nil {
		return nil, err
	}
	for _, n := range c.nodes {
		if err := n.format(ctx, id); err != nil {
			return nil, err
		}
	}
	if c.Client, err = kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(200*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond })); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	c.Admin = kadm.NewClient(c.Client)
	for _, n := range c.nodes {
		if err := n.Start(); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	if err := c.Ready(ctx); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// clusterID draws the 22 characters of a Kafka uuid. The tools take a leading hyphen for a flag.
func clusterID() (string, error) {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("draw a cluster id: %w", err)
	}
	raw[0] &= 0x3f // A to P
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

// jvm are the arguments of every JVM up to the class. A short life is spent in starting: the first compiler is
// enough, and so is the smallest collector.
func (c *Cluster) jvm(most, least, level string) []string {
	return []string{
		most, least, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
		"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=" + level,
		"-cp", filepath.Join(c.libs, "*"),
	}
}

// Jars is the folder with the jars, which hold the tools too.
func (c *Cluster) Jars() string { return c.libs }

// Nodes are all, in order of their ids, which begin with 1.
func (c *Cluster) Nodes() []*Node { return c.nodes }

// Node is the one with an id.
func (c *Cluster) Node(id int) *Node { return c.nodes[id-1] }

// Addrs are the addresses of the plain listeners.
func (c *Cluster) Addrs() []string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.Addr())
	}
	return all
}

// SecureAddrs are the addresses of the second listeners.
func (c *Cluster) SecureAddrs() []string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.SecureAddr())
	}
	return all
}

// probe is a topic of the harness.
const probe = "harness-probe"

// readyTime bounds the wait for a cluster. Three nodes take 6 to 10 s on a free machine.
const readyTime = 2 * time.Minute

// Ready waits until every node that is up serves and a record is stored on as many nodes as must be. Metadata alone
// say nothing.
func (c *Cluster) Ready(ctx context.Context) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	var last error
	for ctx.Err() == nil {
		for _, n := range c.nodes {
			n.mu.Lock()
			p := n.proc
			n.mu.Unlock()
			if p == nil {
				continue
			}
			select {
			case <-p.ended:
				return fmt.Errorf("node %d ended; its log is %s:\n%s", n.ID, n.LogFile(), tail(n.LogFile()))
			default:
			}
		}
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		last = c.probe(try)
		cancel()
		if last == nil {
			return nil
		}
		sleep(ctx, 100*time.Millisecond)
	}
	return fmt.Errorf("the brokers did not become ready within %v: %w", time.Since(began).Round(time.Second), last)
}

func (c *Cluster) probe(ctx context.Context) error {
	up := 0
	for _, n := range c.nodes {
		if n.Up() {
			up++
		}
	}
	brokers, err := c.Admin.ListBrokers(ctx)
	if err != nil {
		return fmt.Errorf("list the brokers: %w", err)
	}
	if len(brokers) < up {
		return fmt.Errorf("%d of %d nodes are known to each other", len(brokers), up)
	}
	_, err = c.Admin.CreateTopic(ctx, int32(len(c.nodes)), -1, nil, probe)
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create a topic: %w", err)
	}
	for p := range c.nodes {
		r := c.Client.ProduceSync(ctx, &kgo.Record{Topic: probe, Partition: int32(p), Value: []byte("probe")})
		if err := r.FirstErr(); err != nil {
			return fmt.Errorf("store a record: %w", err)
		}
	}
	return nil
}

// Stop ends all nodes, paused ones too.
func (c *Cluster) Stop() error {
	if c.Client != nil {
		c.Client.Close()
	}
	var all sync.WaitGroup
	errs := make([]error, len(c.nodes))
	for i, n := range c.nodes {
		all.Go(func() {
			n.mu.Lock()
			down := n.proc == nil
			n.mu.Unlock()
			if down {
				return
			}
			// Nobody needs their disks any more, and a controller that waits for the others would take its time.
			errs[i] = n.Kill()
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Change sets properties for the nodes' next starts.
func (c *Cluster) Change(p Properties) error {
	next := Properties{}
	maps.Copy(next, c.cfg.Properties)
	maps.Copy(next, p)
	c.cfg.Properties = next
	var errs []error
	for _, n := range c.nodes {
		errs = append(errs, n.configure())
	}
	return errors.Join(errs...)
}

func tail(file string) string {
	const most = 4000
	b, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
