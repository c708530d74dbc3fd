package sim

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// What happens between one instance and the brokers.
func networkFaults() []*fault {
	produce := func(name string, a kafkatest.Action, delay time.Duration) *fault {
		return &fault{name: name, length: 5 * time.Second, strike: func(w *world, r *rand.Rand, length time.Duration) int {
			return onRequests(w, r, length, kafkatest.Rule{Action: a, Key: kmsg.Produce.Int16(), Delay: jitter(r, delay), Count: -1, Every: 1 + r.IntN(3)})
		}}
	}
	any := func(name string, a kafkatest.Action, delay time.Duration) *fault {
		return &fault{name: name, length: 4 * time.Second, strike: func(w *world, r *rand.Rand, length time.Duration) int {
			return onRequests(w, r, length, kafkatest.Rule{Action: a, Key: kafkatest.AnyKey, Delay: jitter(r, delay), Count: -1, Every: 1 + r.IntN(6)})
		}}
	}
	return []*fault{
		produce("lost produce request", kafkatest.Swallow, 0),
		produce("produce request cut off", kafkatest.CutBefore, 0),
		produce("late produce request", kafkatest.LandLate, 6*time.Second),
		produce("doubled produce request", kafkatest.Duplicate, 2*time.Second),
		produce("lost ack", kafkatest.LoseAnswer, 0),
		produce("produce request held", kafkatest.HoldRequest, 1500*time.Millisecond),
		produce("ack held", kafkatest.HoldAnswer, 1500*time.Millisecond),
		any("any request lost", kafkatest.Swallow, 0),
		any("any answer lost", kafkatest.LoseAnswer, 0),
		any("any request held", kafkatest.HoldRequest, 700*time.Millisecond),
		any("any request doubled", kafkatest.Duplicate, time.Second),
		{name: "links cut", length: 6 * time.Second, strike: cutOff((*kafkatest.Link).Cut)},
		{name: "links half-open", length: 6 * time.Second, strike: cutOff((*kafkatest.Link).Silence)},
		{name: "one link cut", length: 6 * time.Second, strike: cutOffOne((*kafkatest.Link).Cut)},
		{name: "one link half-open", length: 6 * time.Second, strike: cutOffOne((*kafkatest.Link).Silence)},
		{name: "connections reset", length: 4 * time.Second, strike: reset},
	}
}

func jitter(r *rand.Rand, d time.Duration) time.Duration {
	return time.Duration((0.2 + r.ExpFloat64()) * float64(d))
}

// armed are one rule's copies on all links of a process.
type armed []*kafkatest.Armed

func (l *life) arm(rule kafkatest.Rule) (as armed) {
	for _, link := range l.links {
		as = append(as, link.Arm(rule))
	}
	return as
}

func (as armed) stop() (hits int) {
	for _, a := range as {
		a.Stop()
		hits += a.Hits()
	}
	return hits
}

func onRequests(w *world, r *rand.Rand, length time.Duration, rule kafkatest.Rule) int {
	_, l := victim(w, r)
	if l == nil {
		return 0
	}
	as := l.arm(rule)
	time.Sleep(length)
	return as.stop()
}

func cutOff(how func(*kafkatest.Link)) func(*world, *rand.Rand, time.Duration) int {
	return func(w *world, r *rand.Rand, length time.Duration) int {
		_, l := victim(w, r)
		if l == nil {
			return 0
		}
		bites := 0
		for _, link := range l.links {
			bites += min(link.Conns(), 1)
			how(link)
		}
		time.Sleep(length)
		l.heal()
		return bites
	}
}

func cutOffOne(how func(*kafkatest.Link)) func(*world, *rand.Rand, time.Duration) int {
	return func(w *world, r *rand.Rand, length time.Duration) int {
		_, l := victim(w, r)
		if l == nil {
			return 0
		}
		link := l.links[w.addrs[r.IntN(len(w.addrs))]]
		bites := link.Conns()
		how(link)
		time.Sleep(length)
		l.heal()
		return bites
	}
}

// heal ends cuts and silence; the dead stay cut off.
func (l *life) heal() {
	for _, link := range l.links {
		if !l.gone.Load() {
			link.Heal()
		}
	}
	if l.gone.Load() {
		for _, link := range l.links {
			link.Cut()
		}
	}
}

func reset(w *world, r *rand.Rand, length time.Duration) (bites int) {
	_, l := victim(w, r)
	if l == nil {
		return 0
	}
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Duration(20+r.IntN(800)) * time.Millisecond) {
		link := l.links[w.addrs[r.IntN(len(w.addrs))]]
		bites += link.Conns()
		link.CloseConns()
	}
	return bites
}
