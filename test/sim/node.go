package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/failpoint"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

const dataDir = "data"

// node is an instance: a name and a disk, and at most one process at a time.
type node struct {
	w    *world
	id   string
	disk *disk

	changing lock // one starts or ends the process at a time
	lives    int
	now      atomic.Pointer[life] // nil while no process runs
	wall     atomic.Int64         // how wrong the wall clock is; stays over restarts
}

// life is one process of an instance.
type life struct {
	node  *node
	self  domain.Instance
	home  *kafkasvc.Home
	links map[string]*kafkatest.Link // by broker address
	epoch time.Time

	gone   atomic.Bool // crashed: nothing of it is seen by anybody any more
	paused atomic.Pointer[pause]
	skew   atomic.Int64 // of the boot clock
	armed  atomic.Pointer[crashAt]
	calls  atomic.Int64 // under way
	closed atomic.Bool  // takes no more calls

	stopping atomic.Bool // no pauses any more: they would count as time that the stop takes
	stop     context.CancelFunc
	done     chan struct{}
	err      error // of Run and Close, once done is closed
}

type pause struct {
	at   time.Duration // what the boot clock said
	over chan struct{}
}

// crashAt is an order to crash at a failpoint.
type crashAt struct {
	point failpoint.Point
	skip  atomic.Int64
	how   func()
}

func (w *world) newNode(id string) *node {
	return &node{w: w, id: id, disk: newDisk(), changing: newLock()}
}

func (n *node) life() *life { return n.now.Load() }

// start starts a process where none runs.
func (n *node) start() error {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.life() != nil {
		return nil
	}
	n.lives++
	l := &life{
		node: n, epoch: time.Now(), links: map[string]*kafkatest.Link{}, done: make(chan struct{}),
		self: domain.Instance{ID: n.id, URL: fmt.Sprintf("http://%s-%d-%d", n.id, n.lives, n.w.cfg.Seed)},
	}
	addrs := n.w.addrs
	for _, a := range addrs {
		l.links[a] = n.w.cluster.NewLink()
	}
	cfg := kafkasvc.Config{
		Brokers: addrs, Dial: l.dial, Shards: n.w.cfg.Shards,
		InstanceID: l.self.ID, AdvertisedURL: l.self.URL,
		DataDir: dataDir, StoreFS: n.disk.fs(), SingleBroker: true, ReplicationFactor: 1, MinInsync: 1,
		Timeouts: n.w.cfg.Profile.Timeouts(), LoadBudget: 1 << 20,
		Now:   func() time.Time { return time.Now().Add(time.Duration(n.wall.Load())) },
		Clock: l.clock,
		Log:   slog.New(n.w.logs.handler(l)),
		Alarm: func(kind string) { n.w.note(kindAlarm, l.self.URL, kind) },
	}
	home, err := kafkasvc.New(cfg)
	if err != nil {
		return err
	}
	l.home = home
	forget := failpoint.Watch(l.self, l.hit)
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	n.now.Store(l)
	n.w.processes.Go(func() {
		err := home.Run(ctx)
		ended := ctx.Err() != nil
		l.closed.Store(true)
		for l.calls.Load() > 0 { // as a server's transports end before what they stand on
			time.Sleep(5 * time.Millisecond)
		}
		l.err = errors.Join(err, home.Close())
		forget()
		close(l.done)
		if !ended {
			n.w.violated("the process ended by itself", "%s: %v", l.self.URL, l.err)
		}
	})
	return nil
}

// between does something to the disk if no process runs.
func (n *node) between(f func()) {
	n.changing.Lock()
	defer n.changing.Unlock()
	if n.life() == nil {
		f()
	}
}

// leave stops the process as SIGTERM does.
func (n *node) leave() {
	n.changing.Lock()
	defer n.changing.Unlock()
	l := n.life()
	if l == nil {
		return
	}
	l.stopping.Store(true)
	l.resume()
	began := time.Now()
	l.stop()
	<-l.done
	n.now.Store(nil)
	if took := time.Since(began); took > 8*time.Second {
		n.w.violated("a stop took too long", "%s: %v", l.self.URL, took)
	}
	if l.err != nil && !l.gone.Load() {
		n.w.note(kindNode, l.self.URL, fmt.Sprint("stopped with an error: ", l.err))
	}
}

// crash ends the process as kill -9 does, or with power a power cut: nothing of it gets out from here on.
func (n *node) crash(l *life, r *rand.Rand, power bool) bool {
	if !l.gone.CompareAndSwap(false, true) {
		return false
	}
	for _, link := range l.links {
		link.Cut()
	}
	n.disk.crash(r, power)
	l.resume()
	l.stop() // the goroutines of the dead have to end some day; nobody hears of them
	n.now.CompareAndSwap(l, nil)
	return true
}

// hit crashes at a failpoint if that was ordered.
func (l *life) hit(p failpoint.Point) {
	if c := l.armed.Load(); c != nil && c.point == p && c.skip.Add(-1) < 0 && l.armed.CompareAndSwap(c, nil) {
		c.how()
	}
}

// clock is the boot clock: it stands still for a process that is paused.
func (l *life) clock() time.Duration {
	if p := l.paused.Load(); p != nil {
		return p.at
	}
	return time.Since(l.epoch) + time.Hour + time.Duration(l.skew.Load())
}

// suspend stops the process as SIGSTOP does: nothing that others could see happens until resume.
func (l *life) suspend() bool {
	return !l.stopping.Load() && l.paused.CompareAndSwap(nil, &pause{at: l.clock(), over: make(chan struct{})})
}

func (l *life) resume() {
	if p := l.paused.Swap(nil); p != nil {
		close(p.over)
	}
}

// wait returns when the process is not paused, or with the end of ctx.
func (l *life) wait(ctx context.Context) error {
	for p := l.paused.Load(); p != nil; p = l.paused.Load() {
		select {
		case <-p.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (l *life) dial(ctx context.Context, network, address string) (net.Conn, error) {
	_ = l.wait(context.Background())
	link := l.links[address]
	if link == nil {
		return nil, fmt.Errorf("no broker at %s", address)
	}
	c, err := link.Dial(ctx, network, address)
	_ = l.wait(context.Background())
	if err != nil {
		return nil, err
	}
	return &processConn{Conn: c, life: l}, nil
}

// processConn stands still with its process: a deadline that passes meanwhile is noticed afterwards.
type processConn struct {
	net.Conn
	life *life
}

func (c *processConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	w := c.life.node.w
	if d := w.latency.Load(); d > 0 {
		w.delayed.Add(1)
		time.Sleep(w.cfg.Latency + time.Duration(d))
	} else if w.cfg.Latency > 0 {
		time.Sleep(w.cfg.Latency)
	}
	_ = c.life.wait(context.Background())
	return n, err
}

func (c *processConn) Write(p []byte) (int, error) {
	_ = c.life.wait(context.Background())
	return c.Conn.Write(p)
}

// What a client's transport says where the instance says nothing.
var (
	errNoProcess = errors.New("connection refused")
	errLost      = errors.New("the connection was lost, or the answer did not come in time")
)

// call is a request of a client to the instance. errNoProcess: it surely did not get there. errLost: it may have.
func (n *node) call(ctx context.Context, f func(ctx context.Context, l *life) error) (*life, error) {
	l := n.life()
	if l == nil || l.gone.Load() {
		return nil, errNoProcess
	}
	if l.paused.Load() != nil { // it waits in the socket, and is carried out when the process goes on
		done := make(chan error, 1)
		n.w.background.Go(func() {
			_ = l.wait(context.Background())
			late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			done <- l.run(late, f)
		})
		select {
		case err := <-done:
			return l, l.answer(ctx, err)
		case <-ctx.Done():
			return l, errLost
		}
	}
	return l, l.answer(ctx, l.run(ctx, f))
}

// run keeps the instance's store open for as long as f takes.
func (l *life) run(ctx context.Context, f func(ctx context.Context, l *life) error) error {
	l.calls.Add(1)
	defer l.calls.Add(-1)
	if l.closed.Load() {
		return errNoProcess
	}
	return f(ctx, l)
}

// answer is what of an answer reaches the client.
func (l *life) answer(ctx context.Context, err error) error {
	if l.wait(ctx) != nil || l.gone.Load() {
		return errLost
	}
	return err
}
