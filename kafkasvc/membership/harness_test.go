package membership

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// wire asks a broker that is every group's coordinator, on a connection that it keeps. Its reading of the
// protocol is not ours.
type wire struct {
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	addr string

	mu     sync.Mutex
	conn   net.Conn // idle
	closed bool
}

func (w *wire) Heartbeat(ctx context.Context, group string, generation int32, member string) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID = group, generation, member
	req.SetVersion(3)
	res := kmsg.NewPtrHeartbeatResponse()
	res.SetVersion(3)
	if err := w.ask(ctx, req, res); err != nil {
		return err
	}
	return codeOf(res.ErrorCode)
}

func (w *wire) LeaveGroup(ctx context.Context, group, member string) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, member
	req.SetVersion(2)
	res := kmsg.NewPtrLeaveGroupResponse()
	res.SetVersion(2)
	if err := w.ask(ctx, req, res); err != nil {
		return err
	}
	return codeOf(res.ErrorCode)
}

func codeOf(code int16) error {
	if code != 0 {
		return fmt.Errorf("the coordinator answers: %w", kafka.Error(code))
	}
	return nil
}

// ask takes the connection, or dials another while it is in use. No lock is held while it waits: the bubble's
// clock would stand still.
func (w *wire) ask(ctx context.Context, req kmsg.Request, res kmsg.Response) (err error) {
	w.mu.Lock()
	conn := w.conn
	w.conn = nil
	w.mu.Unlock()
	if conn == nil {
		if conn, err = w.dial(ctx, "tcp", w.addr); err != nil {
			return err
		}
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil || w.conn != nil || w.closed {
			conn.Close()
		} else {
			w.conn = conn
		}
	}()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire")).AppendRequest(nil, req, 1)); err != nil {
		return err
	}
	head := make([]byte, 8)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	body := make([]byte, binary.BigEndian.Uint32(head)-4)
	if _, err := io.ReadFull(conn, body); err != nil {
		return err
	}
	return res.ReadFrom(body)
}

func (w *wire) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

// board watches all members of a test: nobody may be assigned a shard while another still has a valid lease
// for it.
type board struct {
	t       *testing.T
	started time.Time

	mu     sync.Mutex
	owner  map[domain.ShardID]*Generation // the last one, also after it ended
	margin map[*Generation]time.Duration  // from what the last good heartbeat was worth until somebody else owned
}

func newBoard(t *testing.T) *board {
	return &board{t: t, started: time.Now(), owner: make(map[domain.ShardID]*Generation), margin: make(map[*Generation]time.Duration)}
}

func (b *board) assigned(who string, g *Generation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range g.Shards {
		if last := b.owner[s]; last != nil && last.MemberID != g.MemberID {
			if _, known := b.margin[last]; !known {
				last.Lease.mu.Lock()
				b.margin[last] = last.Lease.clock() - (last.Lease.sent + last.Lease.term)
				last.Lease.mu.Unlock()
			}
			if last.Lease.Valid() {
				b.t.Errorf("%v: %s is assigned shard %d while %s has a lease", time.Since(b.started), who, s, last.MemberID)
			}
		}
		b.owner[s] = g
	}
}

// node is one instance.
type node struct {
	t     *testing.T
	name  string
	board *board
	link  *kafkatest.Link // kafka-go's group
	beats *kafkatest.Link // the lease's heartbeats
	coord *wire
	m     *Membership

	cancel context.CancelFunc
	done   chan struct{}
	err    error
	drain  func(ctx context.Context) // in Revoked; nil: at once

	mu      sync.Mutex
	current *Generation // between Assigned and Revoked
	all     []*Generation
	alarms  []Alarm
}

func (n *node) Assigned(g *Generation) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.current != nil {
		n.t.Errorf("%s: Assigned twice in a row", n.name)
	}
	if !g.Lease.Valid() && g.Lease.Err() == nil { // it may have ended just now
		n.t.Errorf("%s: no lease in generation %d", n.name, g.ID)
	}
	n.current = g
	n.all = append(n.all, g)
	n.board.assigned(n.name, g)
}

func (n *node) Revoked(ctx context.Context, g *Generation) {
	n.mu.Lock()
	if n.current != g {
		n.t.Errorf("%s: Revoked without Assigned", n.name)
	}
	if g.Lease.Valid() || g.Lease.Err() == nil {
		n.t.Errorf("%s: the lease has not ended", n.name)
	}
	if _, ok := ctx.Deadline(); !ok {
		n.t.Errorf("%s: no deadline to drain", n.name)
	}
	n.current = nil
	drain := n.drain
	n.mu.Unlock()
	if drain != nil {
		drain(ctx)
	}
}

func (n *node) generation() *Generation {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current
}

func (n *node) shards() []domain.ShardID {
	if g := n.generation(); g != nil && g.Lease.Valid() {
		return g.Shards
	}
	return nil
}

func (n *node) generations() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.all)
}

// group is a cluster and its members.
type group struct {
	t       *testing.T
	cluster *kafkatest.Cluster
	board   *board
	shards  int
	times   Timeouts
	change  func(*Config)
}

const testGroup = "chathome"

func newGroup(t *testing.T, c *kafkatest.Cluster, shards int) *group {
	if err := c.CreateTopic(testTopic, int32(shards), nil); err != nil {
		t.Fatal(err)
	}
	return &group{t: t, cluster: c, board: newBoard(t), shards: shards, times: DefaultTimeouts()}
}

func (g *group) node(name string) *node {
	n := &node{t: g.t, name: name, board: g.board, link: g.cluster.NewLink(), beats: g.cluster.NewLink()}
	n.coord = &wire{dial: n.beats.Dial, addr: g.cluster.Addrs()[0]}
	cfg := Config{
		Brokers:     g.cluster.Addrs(),
		Dial:        n.link.Dial,
		ClientID:    name,
		Group:       testGroup,
		Topic:       testTopic,
		Shards:      g.shards,
		Instance:    name,
		Held:        g.board.held,
		Timeouts:    g.times,
		Clock:       newFakeClock().now,
		Coordinator: n.coord,
		Log:         slog.New(slog.NewTextHandler(testWriter{g.t, g.board.started, name}, nil)),
		Alarm: func(a Alarm) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.alarms = append(n.alarms, a)
		},
	}
	if g.change != nil {
		g.change(&cfg)
	}
	m, err := New(cfg, n)
	if err != nil {
		g.t.Fatal(err)
	}
	n.m = m
	return n
}

// held plays the directory: who was assigned last.
func (b *board) held(s domain.ShardID) (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.owner[s]
	if g == nil {
		return "", false
	}
	return instanceOf(g), true
}

// instanceOf: the test cluster makes member ids of the client id and something behind a dash.
func instanceOf(g *Generation) string { return g.MemberID[:1] }

func (n *node) start() *node {
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.done = cancel, make(chan struct{})
	go func() {
		defer close(n.done)
		n.err = n.m.Run(ctx)
		n.coord.close()
	}()
	n.t.Cleanup(func() { cancel(); <-n.done })
	return n
}

// stop returns how long it took.
func (n *node) stop() time.Duration {
	began := time.Now()
	n.cancel()
	<-n.done
	if n.generation() != nil {
		n.t.Errorf("%s: not revoked at the stop", n.name)
	}
	return time.Since(began)
}

// kill cuts the instance off from everything, as kill -9 does, without a word to anybody.
func (n *node) kill() {
	n.link.Silence()
	n.beats.Silence()
}

// within waits until ok, looking every 10 ms.
func (g *group) within(limit time.Duration, what string, ok func() bool) time.Duration {
	g.t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > limit {
			g.t.Fatalf("%v: not within %v: %s", time.Since(g.board.started), limit, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// settled says whether these nodes own all shards, evenly.
func (g *group) settled(nodes ...*node) func() bool {
	return func() bool {
		var all []domain.ShardID
		for _, n := range nodes {
			mine := n.shards()
			if n.generation() == nil || len(mine) < g.shards/len(nodes) || len(mine) > (g.shards+len(nodes)-1)/len(nodes) {
				return false
			}
			all = append(all, mine...)
		}
		slices.Sort(all)
		return len(all) == g.shards && len(slices.Compact(all)) == g.shards
	}
}

type testWriter struct {
	t       *testing.T
	started time.Time
	name    string
}

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%8v %s: %s", time.Since(w.started).Round(time.Millisecond), w.name, p)
	return len(p), nil
}
