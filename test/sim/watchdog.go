package sim

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync/atomic"
	"time"
)

// standstill is how many seconds of real time simulated time may stand still. Between two of its steps there is little to
// do, so something spins. They are counted, not measured: a process that was stopped meanwhile has not stood still.
const standstill = 30

// watch looks from outside of the bubble whether simulated time goes on. Where it does not, nothing inside can say so:
// it keeps what all goroutines do, and ends the process.
func watch(cfg Config, steps *atomic.Int64) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		last, still := steps.Load(), 0
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
			}
			if n := steps.Load(); n != last {
				last, still = n, 0
			} else if still++; still > standstill {
				panic(fmt.Sprintf("%v\nfirst violation at %v: time stands still: for %d s of real time. All goroutines are in %s\nrun it again: %s",
					cfg, time.Duration(last)*step, standstill, dump(cfg), cfg.Rerun()))
			}
		}
	}()
	return func() { close(over); <-ended }
}

func dump(cfg Config) string {
	out := cfg.Out
	if out == "" {
		out = os.TempDir()
	}
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err.Error()
	}
	path := filepath.Join(out, fmt.Sprintf("chathome-sim-%d-goroutines.txt", cfg.Seed))
	f, err := os.Create(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if err := pprof.Lookup("goroutine").WriteTo(f, 2); err != nil {
		return err.Error()
	}
	return path
}

const step = 100 * time.Millisecond

// count counts steps of simulated time.
func count(steps *atomic.Int64) (stop func()) {
	over := make(chan struct{})
	go func() {
		tick := time.NewTicker(step)
		defer tick.Stop()
		for {
			select {
			case <-over:
				return
			case <-tick.C:
				steps.Add(1)
			}
		}
	}()
	return func() { close(over) }
}
