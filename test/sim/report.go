package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chathome/chathome/kafkasvc/failpoint"
	"github.com/chathome/chathome/kafkasvc/record"
	"github.com/chathome/chathome/test/check"
)

// Report is what a run measured.
type Report struct {
	Config     Config
	Took       time.Duration // of real time
	Opened     time.Duration // simulated, from the end of the faults until all was open
	Sends      int           // attempts
	Messages   int           // that count
	Deliveries int
	Reads      int
	Takeovers  int
	Handovers  int // takeovers by another instance than the one before
	Void       int
	Strikes    map[string]int
	Bites      map[string]int
	Violations []string
	Dir        string // what was kept of a run that failed
}

// Clean says that nothing was found.
func (r *Report) Clean() bool { return len(r.Violations) == 0 }

func (r *Report) add(e *era, v *check.Verdict) {
	r.Sends += len(e.history.Sends)
	r.Messages += v.Messages
	r.Deliveries += v.Deliveries
	r.Reads += v.Reads
	r.Takeovers += v.Facts.Takeovers
	r.Void += v.Facts.Void
	owner := map[int32]string{}
	log := slices.Clone(e.history.Log)
	slices.SortFunc(log, func(a, b check.Record) int { return int(a.Offset - b.Offset) })
	var view record.View
	for _, rec := range log {
		if view.Decode(rec.Value) == nil && view.Kind == record.KindTakeover {
			if who := string(view.URL); owner[rec.Shard] != who {
				owner[rec.Shard] = who
				r.Handovers++
			}
		}
	}
}

// Summary is the run in a few lines.
func (r *Report) Summary() string {
	var b strings.Builder
	verdict := "clean"
	if !r.Clean() {
		verdict = fmt.Sprintf("%d VIOLATIONS", len(r.Violations))
	}
	fmt.Fprintf(&b, "%v: %s; %d sends, %d messages, %d deliveries, %d reads, %d takeovers, %d handovers, %d void records; all open %v after the faults; %v of real time",
		r.Config, verdict, r.Sends, r.Messages, r.Deliveries, r.Reads, r.Takeovers, r.Handovers, r.Void, r.Opened.Round(time.Millisecond), r.Took.Round(time.Millisecond))
	return b.String()
}

// Rerun is the line that runs it again.
func (c Config) Rerun() string {
	return fmt.Sprintf("make sim SEED=%d HOURS=%g ARGS=-runs=1", c.Seed, c.Duration.Hours())
}

// finish gives the verdict, and keeps what a person needs to find out why.
func (w *world) finish() {
	if !w.failed() && w.cfg.Duration >= time.Hour && w.cfg.Only == "" {
		for _, f := range faults() {
			if f.mode != "" && f.mode != w.cfg.Mode || f.on != "" && !failpoint.Enabled {
				continue
			}
			if w.report.Bites[f.name] == 0 {
				w.violated("a fault never bit", "%s, in %d strikes", f.name, w.report.Strikes[f.name])
			}
		}
	}
	w.mu.Lock()
	w.report.Violations = w.violations
	w.mu.Unlock()
	if w.report.Clean() {
		return
	}
	dir, err := w.keep()
	if err != nil {
		w.t.Errorf("keep what is known of the failure: %v", err)
	}
	w.report.Dir = dir
	w.t.Errorf("%v\nfirst violation %s\n%d in all; everything that is known is in %s\nrun it again: %s",
		w.cfg, w.report.Violations[0], len(w.report.Violations), dir, w.cfg.Rerun())
}

// keep writes a directory with all that is known of the run.
func (w *world) keep() (string, error) {
	out := w.cfg.Out
	if out == "" {
		out = os.TempDir()
	}
	dir := filepath.Join(out, fmt.Sprintf("chathome-sim-%d", w.cfg.Seed))
	if err := os.RemoveAll(dir); err != nil {
		return dir, err
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return dir, err
	}
	files := map[string]func(io.Writer) error{
		"violation.txt":  w.explain,
		"timeline.jsonl": w.timeline.write,
		"log.txt":        w.logs.write,
	}
	for i, e := range w.eras {
		h := e.history
		files[fmt.Sprintf("sends-%d.jsonl", i)] = func(out io.Writer) error { return lines(out, h.Sends) }
		files[fmt.Sprintf("reads-%d.jsonl", i)] = func(out io.Writer) error { return lines(out, h.Reads) }
		files[fmt.Sprintf("streams-%d.jsonl", i)] = func(out io.Writer) error { return lines(out, h.Streams) }
		files[fmt.Sprintf("records-%d.jsonl", i)] = func(out io.Writer) error { return writeRecords(out, h.Log) }
	}
	for name, write := range files {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return dir, err
		}
		if err := write(f); err != nil {
			return dir, err
		}
		if err := f.Close(); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

func lines[T any](out io.Writer, list []T) error {
	enc := json.NewEncoder(out)
	for _, x := range list {
		if err := enc.Encode(x); err != nil {
			return err
		}
	}
	return nil
}

func writeRecords(out io.Writer, log []check.Record) error {
	slices.SortFunc(log, func(a, b check.Record) int {
		if a.Shard != b.Shard {
			return int(a.Shard - b.Shard)
		}
		return int(a.Offset - b.Offset)
	})
	var v record.View
	for _, r := range log {
		what := "rubbish"
		if v.Decode(r.Value) == nil {
			what = fmt.Sprintf("kind %d at %d counts %t room %s serial %d %s/%s tenure %s url %s", v.Kind, v.At, v.Kind == record.KindTakeover || v.At == r.Offset, v.Room, v.Serial, v.User, v.ClientID, v.Tenure, v.URL)
		}
		if _, err := fmt.Fprintf(out, "%d %d %s\n", r.Shard, r.Offset, what); err != nil {
			return err
		}
	}
	return nil
}

// explain says what was found first, in words, and what was going on then.
func (w *world) explain(out io.Writer) error {
	fmt.Fprintf(out, "%v\n\nRun it again: %s\n(The seed decides the plan of faults; the interleaving differs from run to run.)\n\n", w.cfg, w.cfg.Rerun())
	for i, v := range w.report.Violations {
		fmt.Fprintf(out, "%d. %s\n", i+1, v)
	}
	fmt.Fprintln(out)
	for _, v := range w.verdicts {
		if _, err := v.WriteTo(out); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(out, "\nFaults: strikes, bites\n%s", Faults([]*Report{&w.report}))
	return err
}

// timeline is what happened to the run from outside.
type timeline struct {
	mu     sync.Mutex
	events []timelineEvent
}

type timelineEvent struct {
	At   string
	Kind string
	Who  string
	What string
}

func (t *timeline) add(at check.Time, kind, who, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, timelineEvent{at.Round(time.Millisecond).String(), kind, who, what})
}

func (t *timeline) write(out io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return lines(out, t.events)
}

// logs keeps the newest part of what all instances log.
type logs struct {
	mu       sync.Mutex
	old, now bytes.Buffer
}

const logBytes = 8 << 20

func newLogs() *logs { return &logs{} }

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.Len() > logBytes {
		l.old, l.now = l.now, bytes.Buffer{}
	}
	return l.now.Write(p)
}

func (l *logs) handler(of *life) slog.Handler {
	return slog.NewTextHandler(l, nil).WithAttrs([]slog.Attr{slog.String("process", of.self.URL)})
}

func (l *logs) write(out io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := out.Write(l.old.Bytes()); err != nil {
		return err
	}
	_, err := out.Write(l.now.Bytes())
	return err
}
