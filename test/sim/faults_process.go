package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/kafkasvc/failpoint"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// What happens to the processes of instances.
func processFaults() []*fault {
	return []*fault{
		{name: "join and leave", length: 20 * time.Second, strike: joinAndLeave},
		{name: "graceful leave", length: 8 * time.Second, strike: gracefulLeave},
		{name: "graceful restart", length: 100 * time.Millisecond, strike: gracefulLeave},
		{name: "crash", length: 10 * time.Second, strike: crash(false, false)},
		{name: "crash and restart at once", length: time.Millisecond, strike: crash(false, false)},
		{name: "crash, local data lost", length: 5 * time.Second, strike: crash(false, true)},
		{name: "power cut of an instance", length: 3 * time.Second, strike: crash(true, false)},
		{name: "pause", length: 8 * time.Second, strike: suspend},
		{name: "short pause", length: 1500 * time.Millisecond, strike: suspend},
		{name: "wall clock jump", length: time.Minute, strike: wallJump},
		{name: "boot clock jump", length: time.Second, strike: bootJump},
		{name: "rebalance storm while loading", length: 8 * time.Second, strike: storm},
	}
}

// victim draws an instance that runs. nil where none does.
func victim(w *world, r *rand.Rand) (*node, *life) {
	n := w.pick(r)
	if n == nil {
		return nil, nil
	}
	l := n.life()
	if l == nil || l.gone.Load() {
		return nil, nil
	}
	return n, l
}

// restart starts the process again. A local disk that takes nothing may refuse for a while.
func (n *node) restart(w *world) {
	if err := w.eventually(time.Minute, n.start); err != nil {
		w.violated("an instance does not start", "%s: %v", n.id, err)
	}
}

func joinAndLeave(w *world, r *rand.Rand, length time.Duration) int {
	n := w.newNode(fmt.Sprint("x", r.IntN(4)))
	w.guests.Lock() // two with one id would be another fault
	defer w.guests.Unlock()
	n.restart(w)
	time.Sleep(length)
	n.leave()
	return 1
}

func gracefulLeave(w *world, r *rand.Rand, length time.Duration) int {
	n, _ := victim(w, r)
	if n == nil {
		return 0
	}
	n.leave()
	time.Sleep(length)
	n.restart(w)
	return 1
}

func crash(power, lost bool) func(*world, *rand.Rand, time.Duration) int {
	return func(w *world, r *rand.Rand, length time.Duration) int {
		n, l := victim(w, r)
		if n == nil || !n.crash(l, r, power) {
			return 0
		}
		if lost {
			n.between(n.disk.wipe)
		}
		time.Sleep(length)
		n.restart(w)
		return 1
	}
}

// suspend is SIGSTOP and SIGCONT.
func suspend(w *world, r *rand.Rand, length time.Duration) int {
	_, l := victim(w, r)
	if l == nil || !l.suspend() {
		return 0
	}
	time.Sleep(length)
	l.resume()
	return 1
}

// wallJump: an instance's wall clock is wrong for a while, by hours perhaps.
func wallJump(w *world, r *rand.Rand, length time.Duration) int {
	n := w.nodes[r.IntN(len(w.nodes))]
	n.wall.Store(int64((r.Float64() - 0.5) * float64(6*time.Hour)))
	time.Sleep(length)
	n.wall.Store(0)
	return 1
}

// bootJump: a machine was suspended so shortly that nobody noticed, but its clock did.
func bootJump(w *world, r *rand.Rand, _ time.Duration) int {
	_, l := victim(w, r)
	if l == nil {
		return 0
	}
	l.skew.Add(int64(time.Duration(1+r.IntN(20)) * time.Second))
	return 1
}

// storm lets the group rebalance again and again while an instance with an empty disk loads slowly.
func storm(w *world, r *rand.Rand, length time.Duration) int {
	n, l := victim(w, r)
	if n == nil || !n.crash(l, r, false) {
		return 0
	}
	n.between(n.disk.wipe)
	n.restart(w)
	l = n.life()
	if l == nil {
		return 0
	}
	slow := l.arm(kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: kmsg.Fetch.Int16(), Topic: messages, Delay: 300 * time.Millisecond, Count: -1})
	bites := 0
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Duration(300+r.IntN(1500)) * time.Millisecond) {
		f := w.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.RebalanceInProgress, Count: 2})
		time.Sleep(250 * time.Millisecond)
		f.Remove()
		bites += f.Hits()
	}
	slow.stop()
	return bites
}

// crashPoints: an instance dies just there.
func crashPoints() (fs []*fault) {
	for _, p := range failpoint.Points {
		fs = append(fs, &fault{name: "crash " + string(p), on: p, length: 20 * time.Second, strike: func(w *world, r *rand.Rand, length time.Duration) int {
			return crashPoint(w, r, p, length)
		}})
	}
	return fs
}

func crashPoint(w *world, r *rand.Rand, p failpoint.Point, length time.Duration) int {
	n, l := victim(w, r)
	if n == nil {
		return 0
	}
	died := make(chan struct{})
	c := &crashAt{point: p, how: func() {
		n.crash(l, r, r.IntN(4) == 0)
		close(died)
	}}
	c.skip.Store(int64(r.IntN(3)))
	if !l.armed.CompareAndSwap(nil, c) {
		return 0
	}
	switch p { // what it is on the way to, it has to be sent to
	case failpoint.AfterTakeover, failpoint.WhileLoading, failpoint.AfterLoading, failpoint.AfterRevoke, failpoint.BeforeAnnounce, failpoint.AfterAnnounce:
		defer w.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.RebalanceInProgress, Count: 6}).Remove()
	}
	select {
	case <-died:
		time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
		n.restart(w)
		return 1
	case <-time.After(length):
		if l.armed.CompareAndSwap(c, nil) {
			return 0
		}
		<-died
		n.restart(w)
		return 1
	}
}
