package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/chathome/chathome/test/kafka"
)

// table is printed in Markdown whose columns are aligned, so that it can be read where it is printed.
type table struct {
	title string
	rows  [][]string // the first one is the head
}

func newTable(title string, head ...string) *table { return &table{title, [][]string{head}} }

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print() {
	width := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n\n", t.title)
	for n, row := range t.rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("| " + cell + pad + " |")
			} else {
				b.WriteString(" " + pad + cell + " |")
			}
		}
		b.WriteByte('\n')
		if n == 0 {
			for i, w := range width {
				if i == 0 {
					b.WriteString("|" + strings.Repeat("-", w+2) + "|")
				} else {
					b.WriteString(strings.Repeat("-", w+1) + ":|")
				}
			}
			b.WriteByte('\n')
		}
	}
	fmt.Print(b.String())
}

// quantile of times that are in order.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func median[T int | float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", float64(d)/1e6) }

func wholeMs(d time.Duration) string { return thousands(float64(d.Milliseconds())) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

// thousands writes a rate or a count as people read it.
func thousands(x float64) string {
	s := fmt.Sprintf("%.0f", x)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func ratio(a, b float64) string { return fmt.Sprintf("%.2f ×", a/b) }

func printMachine(ctx context.Context) {
	java, err := exec.CommandContext(ctx, "java", "--version").Output()
	if err != nil {
		java = []byte("unknown Java")
	}
	java, _, _ = bytes.Cut(java, []byte("\n"))
	fmt.Printf("%d processors (%s), %.0f GB; %s; %s; Apache Kafka %s, one broker; %s\n", runtime.NumCPU(), model(), memory(),
		runtime.Version(), java, kafka.Newest, time.Now().UTC().Format("2006-01-02"))
}

func model() string {
	return procField("/proc/cpuinfo", "model name", "unknown model")
}

func memory() float64 {
	var kb float64
	_, _ = fmt.Sscan(procField("/proc/meminfo", "MemTotal", "0"), &kb)
	return kb / (1 << 20)
}

// procField is the value of the first line "name : value".
func procField(file, name, otherwise string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return otherwise
}
