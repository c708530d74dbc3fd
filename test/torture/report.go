package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/test/check"
)

// report writes what a person needs to understand a failed round. Logs and data of all processes are there already.
func (r *round) report() {
	for name, write := range map[string]func(*strings.Builder){
		"README.txt":   r.explain,
		"timeline.txt": r.times,
		"room.txt":     r.story,
	} {
		var b strings.Builder
		write(&b)
		r.write(name, []byte(b.String()))
		if name == "README.txt" {
			fmt.Print("\n", b.String())
		}
	}
	h := r.net.History
	histories, err := json.MarshalIndent(map[string]any{"sends": h.Sends, "reads": h.Reads, "streams": h.Streams, "log": h.Log}, "", " ")
	if err == nil {
		r.write("histories.json", histories)
	}
	if r.second == nil {
		return
	}
	for n := range r.second.Bad {
		var b strings.Builder
		if r.second.Bad[n].Draw(&b) == nil {
			r.write(fmt.Sprintf("room-%s.html", r.second.Bad[n].ID), []byte(b.String()))
		}
	}
}

func (r *round) write(name string, b []byte) {
	if err := os.WriteFile(filepath.Join(r.kept, name), b, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "torture: keep", name+":", err)
	}
}

// explain says what went wrong, the first things first.
func (r *round) explain(b *strings.Builder) {
	kafka := ""
	if r.o.kafka != "" {
		kafka = fmt.Sprintf(" KAFKA=1 VERSION=%s NODES=%d", r.o.kafka, r.o.nodes)
	}
	fmt.Fprintf(b, "A round of torture failed.\nseed %d, %s, %v, %d instances%s\nagain: make torture MINUTES=%.1f SEED=%d%s\n\n",
		r.seed, r.setting.name, r.length, r.o.instances, r.o.on(), r.length.Minutes(), r.seed, kafka)
	for _, f := range r.failures {
		fmt.Fprintf(b, "failure: %s\n", f)
	}
	if r.verdict != nil {
		_, _ = r.verdict.WriteTo(b)
	}
	if r.second != nil {
		fmt.Fprintf(b, "%s\n", r.second)
	}
	b.WriteString("\ntimeline.txt: the faults; room.txt: everything about the first room that is wrong; histories.json: all;\n" +
		"room-*.html: rooms for which the second judge found no order; *.log: the processes\n")
}

func (r *round) times(b *strings.Builder) {
	for _, m := range r.timeline {
		fmt.Fprintf(b, "%12v  %s\n", m.at.Round(time.Millisecond), m.text)
	}
}

// story is everything that is known about the first bad room, in the order of time, with the faults between.
func (r *round) story(b *strings.Builder) {
	var room uuid.UUID
	switch {
	case r.verdict != nil && len(r.verdict.Violations) > 0:
		room = r.verdict.Violations[0].Room
	case r.second != nil && len(r.second.Bad) > 0:
		room = r.second.Bad[0].ID
	default:
		b.WriteString("no room is wrong\n")
		return
	}
	fmt.Fprintf(b, "room %s\n\n", room)
	type line struct {
		at   check.Time
		text string
	}
	var lines []line
	for _, s := range r.net.History.Sends {
		if s.Room == room {
			what := string(s.Outcome)
			if s.Outcome == check.Stored || s.Outcome == check.Mutation {
				what += fmt.Sprintf(" serial %d", s.Message.Serial)
			}
			lines = append(lines, line{s.Invoked, fmt.Sprintf("%s sends %s to %s, answered at %v: %s", s.Client, s.ClientID, s.Instance, s.Returned.Round(time.Microsecond), what)})
		}
	}
	for _, x := range r.net.History.Reads {
		if x.Room == room {
			lines = append(lines, line{x.Invoked, fmt.Sprintf("%s asks %s for the newest, answered at %v: serial %d", x.Client, x.Instance, x.Returned.Round(time.Microsecond), x.Newest)})
		}
	}
	for _, m := range r.timeline {
		lines = append(lines, line{m.at, "—— " + m.text})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	for _, l := range lines {
		fmt.Fprintf(b, "%14v  %s\n", l.at.Round(time.Microsecond), l.text)
	}
	if r.verdict == nil {
		return
	}
	b.WriteString("\nthe log of the room:\n")
	for _, m := range r.verdict.Facts.Rooms[room] {
		fmt.Fprintf(b, "%6d  %s/%s at %s, %d bytes\n", m.Serial, m.User, m.ClientID, time.UnixMilli(m.SentAt).UTC().Format("15:04:05.000"), len(m.Text))
	}
}

// sum adds rounds up.
type sum struct {
	rounds    int
	took      time.Duration
	ops       int
	messages  int
	takeovers int
	voids     int
	bits      map[string]int64
	used      map[string]int64
	skipped   map[string]bool
}

func newSum() *sum {
	return &sum{bits: map[string]int64{}, used: map[string]int64{}, skipped: map[string]bool{}}
}

func (s *sum) add(r *round) {
	s.rounds++
	s.took += r.took
	s.ops += len(r.net.History.Sends) + len(r.net.History.Reads)
	if r.verdict != nil {
		s.messages += r.verdict.Messages
		s.takeovers += r.verdict.Facts.Takeovers
		s.voids += r.verdict.Facts.Void
		s.ops += r.verdict.Deliveries
	}
	for name, n := range r.bits {
		s.bits[name] += n
	}
	for name, n := range r.used {
		s.used[name] += n
	}
	for name := range r.skipped {
		s.skipped[name] = true
	}
}

// table lists the faults, with those that never bit; all says that there are none.
func (s *sum) table(kinds []fault) (all bool) {
	all = true
	fmt.Printf("\n%-28s %6s %8s\n", "fault", "used", "bit")
	for _, f := range kinds {
		about := ""
		if s.skipped[f.name] {
			about = "  not covered here"
		} else if s.bits[f.name] == 0 {
			about = "  never bit"
			all = false
		}
		fmt.Printf("%-28s %6d %8d%s\n", f.name, s.used[f.name], s.bits[f.name], about)
	}
	return all
}

// ledger is the line for docs/RELIABILITY.md: date, what, real time, operations, messages, handovers, faults, anomalies.
func (s *sum) ledger(o options, anomalies int) string {
	var used int64
	var names []string
	for name, n := range s.used {
		used += n
		names = append(names, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(names)
	return fmt.Sprintf("| %s | torture, %d rounds from seed %d%s | %v real | %d operations | %d messages | %d takeovers, %d void records | %d faults: %s | %d anomalies |",
		time.Now().UTC().Format("2006-01-02"), s.rounds, o.seed, o.on(), s.took.Round(time.Second), s.ops, s.messages, s.takeovers, s.voids, used, strings.Join(names, ", "), anomalies)
}
