package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// Ledger sums up runs in the line that docs/RELIABILITY.md keeps: what, seeds, simulated hours, handovers, sends,
// strikes of faults and kinds that bit; and how many runs with violations there were beside those.
func Ledger(rs []*Report) string {
	var hours time.Duration
	var sends, messages, deliveries, handovers, strikes, kinds, dirty int
	first, last := rs[0].Config.Seed, rs[0].Config.Seed
	bites := map[string]int{}
	for _, r := range rs {
		if !r.Clean() { // it ended early: its hours do not count
			dirty++
			continue
		}
		hours += r.Config.Duration
		sends += r.Sends
		messages += r.Messages
		deliveries += r.Deliveries
		handovers += r.Handovers
		first, last = min(first, r.Config.Seed), max(last, r.Config.Seed)
		for k, n := range r.Strikes {
			strikes += n
			bites[k] += r.Bites[k]
		}
	}
	for _, n := range bites {
		if n > 0 {
			kinds++
		}
	}
	return fmt.Sprintf("| %d runs, seeds %d to %d | %.1f | %d | %d | %d | %d | %d of %d kinds | %d |",
		len(rs)-dirty, first, last, hours.Hours(), handovers, sends, messages, deliveries, strikes, kinds, dirty)
}

// Faults lists how often each kind struck and bit.
func Faults(rs []*Report) string {
	strikes, bites := map[string]int{}, map[string]int{}
	for _, r := range rs {
		for k, n := range r.Strikes {
			strikes[k] += n
			bites[k] += r.Bites[k]
		}
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(strikes)) {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", k, strikes[k], bites[k])
	}
	return b.String()
}

// AppendTo adds the report to a file of reports.
func (r *Report) AppendTo(path string) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// ReadReports reads a file of reports.
func ReadReports(path string) (rs []*Report, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for d := json.NewDecoder(f); ; {
		r := new(Report)
		if err := d.Decode(r); errors.Is(err, io.EOF) {
			return rs, nil
		} else if err != nil {
			return nil, err
		}
		rs = append(rs, r)
	}
}
