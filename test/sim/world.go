package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/test/check"
)

const (
	messages  = "chathome.messages"
	directory = "chathome.directory"
	group     = "chathome"
)

// world is one run.
type world struct {
	t       *testing.T
	cfg     Config
	start   time.Time
	cluster *kafkatest.Cluster
	addrs   []string
	nodes   []*node
	logs    *logs

	brokers lock // held by who looks at the cluster, and while it restarts
	guests  lock // held while an instance beside the usual ones runs

	latency atomic.Int64 // added to every answer of the brokers, in nanoseconds
	delayed atomic.Int64

	clients    sync.WaitGroup // writers
	followers  sync.WaitGroup // subscribers
	processes  sync.WaitGroup
	background sync.WaitGroup // requests that wait in a socket
	quiet      chan struct{}  // closed when writers begin nothing new

	era      *era
	eras     []*era
	timeline timeline
	report   Report
	tail     *tail // copies the log, where records are deleted

	mu         sync.Mutex
	violations []string
	verdicts   []*check.Verdict
}

// era is what happens within one life of the topics.
type era struct {
	rooms   []domain.ChatRoomInfo // that clients write to
	created []domain.ChatRoomInfo // others; guarded by world.mu
	history *check.History
	lost    atomic.Bool // the topics are being deleted: nothing counts any more
	ends    atomic.Pointer[map[uuid.UUID]domain.Serial]
	subs    []*subscriber
}

// Run runs one simulation. It fails t where a promise was broken, or where a fault that should have bitten never did;
// in every case keep gets the report.
func Run(t *testing.T, cfg Config, keep func(*Report)) {
	t.Helper()
	began := time.Now()
	var report *Report
	defer func() { // a failed bubble does not return
		if report != nil {
			report.Took = time.Since(began)
			keep(report)
		}
	}()
	var steps atomic.Int64
	defer watch(cfg, &steps)()
	bubbletest.Test(t, func(t *testing.T) {
		defer count(&steps)()
		w := newWorld(t, cfg)
		defer func() {
			r := w.report // a copy: the world, with all its disks, must not live on in it
			report = &r
		}()
		w.simulate()
	})
}

func newWorld(t *testing.T, cfg Config) *world {
	w := &world{t: t, cfg: cfg, start: time.Now(), quiet: make(chan struct{}), logs: newLogs(), brokers: newLock(), guests: newLock()}
	w.cluster = kafkatest.Start(t, kfake.Ports(9092, 9093, 9094), kfake.DataDir(t.TempDir()))
	w.addrs = w.cluster.Addrs()
	w.report = Report{Config: cfg, Bites: map[string]int{}, Strikes: map[string]int{}}
	return w
}

func (w *world) simulate() {
	cfg := w.cfg
	r := rand.New(rand.NewPCG(cfg.Seed, 0))
	for i := range cfg.Instances {
		n := w.newNode(string(rune('a' + i)))
		w.nodes = append(w.nodes, n)
		if err := n.start(); err != nil {
			w.t.Fatalf("start %s: %v", n.id, err)
		}
	}
	if cfg.Mode == Deleting {
		w.tail = w.startTail()
	}
	plan := drawPlan(cfg)
	if cfg.Mode == Lives {
		half := len(plan) / 2
		w.live(r, plan[:half], cfg.Duration/2)
		w.anotherLife(r)
		for i := range plan[half:] {
			plan[half+i].at -= cfg.Duration / 2
		}
		w.live(r, plan[half:], cfg.Duration/2)
	} else {
		w.live(r, plan, cfg.Duration)
	}
	w.end()
	w.finish()
}

// live is one era: rooms are made, clients start, faults happen, and in the end everything has to settle.
func (w *world) live(r *rand.Rand, plan []strike, length time.Duration) {
	e := &era{history: &check.History{}}
	w.mu.Lock()
	w.era, w.eras = e, append(w.eras, e)
	w.mu.Unlock()
	w.quiet = make(chan struct{})
	w.makeRooms(r, e)
	if w.failed() {
		return
	}
	w.startClients(r, e)
	w.strike(plan, length)
	w.settle(e)
}

func (w *world) makeRooms(r *rand.Rand, e *era) {
	for i := range w.cfg.Rooms {
		name := fmt.Sprint("room ", i)
		id := randomUUID(r)
		var info domain.ChatRoomInfo
		ok := w.eventually(time.Minute, func() error {
			n := w.nodes[r.IntN(len(w.nodes))]
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_, err := n.call(ctx, func(ctx context.Context, l *life) (err error) {
				info, _, err = l.home.CreateChatRoom(ctx, id, name)
				return err
			})
			return err
		})
		if ok != nil {
			w.violated("stuck loading", "no room could be made within a minute of a quiet start: %v", ok)
			return
		}
		e.rooms = append(e.rooms, info)
	}
}

// eventually tries in fake time until f succeeds, or returns its last error.
func (w *world) eventually(limit time.Duration, f func() error) error {
	began := time.Now()
	for {
		err := f()
		if err == nil || time.Since(began) > limit {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// now is the time of the run.
func (w *world) now() check.Time { return time.Since(w.start) }

// violated notes a broken promise that package check does not look for.
func (w *world) violated(what, format string, args ...any) {
	text := fmt.Sprintf("%s: %s", what, fmt.Sprintf(format, args...))
	w.timeline.add(w.now(), "VIOLATION", "", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.violations) < 50 {
		w.violations = append(w.violations, fmt.Sprintf("at %v: %s", w.now().Round(time.Millisecond), text))
	}
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.violations) > 0
}

const (
	kindNode  = "node"
	kindAlarm = "alarm"
	kindFault = "fault"
)

func (w *world) note(kind, who, what string) { w.timeline.add(w.now(), kind, who, what) }

func (w *world) current() *era {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.era
}

// running are the nodes with a process that lives.
func (w *world) running() []*node {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return n.life() == nil })
}

// pick draws a node that runs; nil where none does.
func (w *world) pick(r *rand.Rand) *node {
	up := w.running()
	if len(up) == 0 {
		return nil
	}
	return up[r.IntN(len(up))]
}

// end stops all processes and waits for everything that was started.
func (w *world) end() {
	var all sync.WaitGroup
	for _, n := range w.nodes {
		all.Go(n.leave)
	}
	all.Wait()
	w.processes.Wait()
	w.background.Wait()
	time.Sleep(lateAtMost) // time ends with us, and nothing may be left waiting for it
	if w.tail != nil {
		w.tail.stop()
	}
}

// lateAtMost is when the last request that is to land late has landed.
const lateAtMost = 5 * time.Minute

func randomUUID(r *rand.Rand) (id uuid.UUID) {
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80
	return id
}
