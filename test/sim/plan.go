package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chathome/chathome/kafkasvc/failpoint"
)

// fault is something that goes wrong.
type fault struct {
	name string
	mode Mode            // "": all
	on   failpoint.Point // it needs this build's failpoints
	// strike does it, for about so long, and undoes it. It says how often it really bit.
	strike func(w *world, r *rand.Rand, length time.Duration) (bites int)
	length time.Duration // mean
}

// strike is one entry of a plan.
type strike struct {
	at     time.Duration
	fault  *fault
	length time.Duration
	seed   uint64
}

// strikeEvery is the mean time between two faults: often enough that several are at work at once.
const strikeEvery = 9 * time.Second

// drawPlan draws when which fault happens. All kinds come once, in any order, before one comes again.
func drawPlan(cfg Config) []strike {
	r := rand.New(rand.NewPCG(cfg.Seed, 100))
	var kinds []*fault
	for _, f := range faults() {
		if f.mode != "" && f.mode != cfg.Mode || f.on != "" && !failpoint.Enabled || !strings.Contains(f.name, cfg.Only) {
			continue
		}
		kinds = append(kinds, f)
	}
	var plan []strike
	var order []*fault
	at := time.Duration(0)
	for {
		at += time.Duration(r.ExpFloat64() * float64(strikeEvery))
		if at > cfg.Duration || len(kinds) == 0 {
			return plan
		}
		if len(order) == 0 {
			order = slices.Clone(kinds)
			r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		f := order[0]
		order = order[1:]
		length := time.Duration((0.3 + r.ExpFloat64()) * float64(f.length))
		plan = append(plan, strike{at, f, min(length, 4*f.length), r.Uint64()})
	}
}

// strike carries the plan out, and returns when all of it has ended and length has passed.
func (w *world) strike(plan []strike, length time.Duration) {
	began := time.Now()
	var all sync.WaitGroup
	for _, s := range plan {
		time.Sleep(s.at - time.Since(began))
		if w.failed() {
			break
		}
		all.Go(func() { w.carryOut(s) })
	}
	if !w.failed() {
		time.Sleep(length - time.Since(began))
	}
	all.Wait()
	w.again(plan)
}

func (w *world) carryOut(s strike) {
	w.note(kindFault, s.fault.name, fmt.Sprintf("begins, for about %v", s.length.Round(time.Millisecond)))
	bites := s.fault.strike(w, rand.New(rand.NewPCG(s.seed, 5)), s.length)
	w.note(kindFault, s.fault.name, fmt.Sprintf("is over, bit %d times", bites))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report.Strikes[s.fault.name]++
	w.report.Bites[s.fault.name] += bites
}

// again gives kinds that struck and found nothing to bite a few more chances.
func (w *world) again(plan []strike) {
	const chances = 8
	seen := map[*fault]bool{}
	for _, s := range plan {
		for range chances {
			if w.failed() || seen[s.fault] || w.bitten(s.fault.name) {
				break
			}
			s.seed++
			w.carryOut(s)
		}
		seen[s.fault] = true
	}
}

func (w *world) bitten(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.report.Bites[name] > 0
}
