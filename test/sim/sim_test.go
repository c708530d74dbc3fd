package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"
)

var (
	seed    = flag.Uint64("seed", 0, "first seed; 0 draws one")
	hours   = flag.Float64("hours", 1, "simulated hours, over all runs")
	runs    = flag.Int("runs", 0, "number of runs; 0: one for each hour")
	atLeast = flag.Duration("for", 0, "go on with further seeds for so long, in real time")
	only    = flag.String("only", "", "inject only faults whose names contain this")
	profile = flag.String("profile", "", "timeouts: defaults, smallest, wide; drawn from the seed if empty")
	mode    = flag.String("mode", "", "plain, deleting, lives; drawn from the seed if empty")
	pace    = flag.Duration("pace", 0, "mean pause of a writer")
	ledger  = flag.String("ledger", "", "file that reports are added to; the sum over all of it is printed")
	out     = flag.String("out", "", "where to keep what is known of a failure")
)

// TestSim is the simulation: make sim.
func TestSim(t *testing.T) {
	n := *runs
	if n == 0 {
		n = max(1, int(*hours+0.5))
	}
	first := *seed
	if first == 0 {
		first = uint64(time.Now().UnixNano() % 1_000_000)
	}
	each := time.Duration(*hours * float64(time.Hour) / float64(n)).Round(time.Second)
	fmt.Printf("seeds %d to %d, %v each\n", first, first+uint64(n)-1, each)
	var reports []*Report
	for i, began := 0, time.Now(); i < n || time.Since(began) < *atLeast; i++ {
		c := Draw(first+uint64(i), each)
		c.Only, c.Out = *only, *out
		if *profile != "" {
			c.Profile = Profile(*profile)
		}
		if *mode != "" {
			c.Mode = Mode(*mode)
		}
		if *pace != 0 {
			c.Pace = *pace
		}
		t.Run(fmt.Sprint(c.Seed), func(t *testing.T) {
			Run(t, c, func(r *Report) {
				reports = append(reports, r)
				fmt.Println(r.Summary())
				if *ledger != "" {
					if err := r.AppendTo(*ledger); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
	if len(reports) > 0 {
		fmt.Println(Ledger(reports))
	}
	if *ledger != "" {
		all, err := ReadReports(*ledger)
		if err != nil {
			t.Fatal(err)
		}
		reports = all
		fmt.Printf("all of %s:\n%s\n", *ledger, Ledger(reports))
	}
	fmt.Printf("\n| fault | strikes | bites |\n|---|---|---|\n%s", Faults(reports))
}
