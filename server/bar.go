package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/chathome/chathome/kafkasvc/transfer"
)

// bar shows how far a transfer is, in one line of a terminal; elsewhere it shows nothing.
type bar struct {
	to    io.Writer // nil: no terminal
	what  string
	began time.Time
	shown time.Time
}

func newBar(to io.Writer, what string) *bar {
	b := &bar{what: what, began: time.Now()}
	if f, ok := to.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			b.to = to
		}
	}
	return b
}

const (
	barInterval = 100 * time.Millisecond
	barWidth    = 30
)

func (b *bar) show(p transfer.Progress) {
	now := time.Now()
	if b.to == nil || now.Sub(b.shown) < barInterval && p.Done < p.Total {
		return
	}
	b.shown = now
	fmt.Fprint(b.to, "\r", b.line(p, now.Sub(b.began)), "\x1b[K") // to the end of the line: what was longer before
}

func (b *bar) line(p transfer.Progress, took time.Duration) string {
	rate := int64(float64(p.Messages) / max(took.Seconds(), 0.001))
	counts := fmt.Sprintf("%d rooms, %d messages, %d a second", p.Rooms, p.Messages, rate)
	if p.Total <= 0 {
		return fmt.Sprintf("%s: %s", b.what, counts)
	}
	ratio := min(1, float64(p.Done)/float64(p.Total))
	full := int(ratio * barWidth)
	return fmt.Sprintf("%s [%s%s] %3.0f%%  %s", b.what, strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*ratio, counts)
}

func (b *bar) end() {
	if b.to != nil {
		fmt.Fprintln(b.to)
	}
}
