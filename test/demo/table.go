package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// painter draws a view as lines of a terminal.
type painter struct{ color bool }

// Colours by their terminal codes.
const (
	plain  = ""
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (p painter) in(color, text string) string {
	if !p.color || color == plain {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// cell is text of a fixed width; wide text is cut.
func cell(width int, text string) string {
	n := utf8.RuneCountInString(text)
	if n > width {
		return string([]rune(text)[:width-1]) + "…"
	}
	return text + strings.Repeat(" ", width-n)
}

// table returns at most height lines of at most width columns.
func (p painter) table(v *view, width, height int) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	width = max(width, 40)
	var lines []string
	add := func(line string) { lines = append(lines, line) }
	elapsed := min(time.Since(v.began), 99*time.Hour)
	title := fmt.Sprintf("%s of %s · seed %d · %s", clock(elapsed), clock(v.o.duration), v.o.seed, v.sources)
	add(p.in(bold, "chathome demo") + "  " + p.in(dim, cell(width-16, title)))
	add("")
	lines = append(lines, p.shards(v, width)...)
	add("")
	lines = append(lines, p.numbers(v, width)...)
	add("")
	// The newest events, as many as there is room for.
	room := max(height-len(lines), 0)
	for _, e := range v.events[max(len(v.events)-room, 0):] {
		color := plain
		if e.fault {
			color = red
		}
		add(p.in(dim, fmt.Sprintf("%6s  ", clock(e.at))) + p.in(color, strings.TrimRight(cell(width-9, e.text), " ")))
	}
	return lines[:min(len(lines), height)]
}

// shards: a line for each instance, a column for each shard.
func (p painter) shards(v *view, width int) []string {
	count := 0
	for _, i := range v.instances {
		count = max(count, len(i.shards))
	}
	for n := range v.owners {
		count = max(count, n+1)
	}
	column := 3
	if fits := (width - 34) / column; count > fits {
		count = max(fits, 0)
	}
	head := cell(34, "instance  process  state")
	for n := range count {
		head += fmt.Sprintf("%*d", column, n)
	}
	lines := []string{p.in(dim, head)}
	var loading []string
	for _, i := range v.instances {
		state, color := "starting", yellow
		switch {
		case i.gone != "":
			state, color = i.gone, red
		case !i.Running():
			state, color = "ended", red
		case i.ready:
			state, color = "ready", green
		case i.shards != nil:
			state, color = "not ready", yellow
		}
		process := "–"
		if pid := i.PID(); pid != 0 {
			process = fmt.Sprint(pid)
		}
		line := cell(10, i.Name) + cell(9, process) + p.in(color, cell(15, state))
		for _, s := range i.shards[:min(len(i.shards), count)] {
			sign, color := sign(s.State)
			line += strings.Repeat(" ", column-1) + p.in(color, sign)
			if s.State == "LOADING" && s.NotOwned != nil && s.NotOwned.Progress != nil {
				loading = append(loading, fmt.Sprintf("%d at %s %3.0f %%", s.Number, i.Name, 100*s.NotOwned.Progress.Ratio))
			}
		}
		lines = append(lines, line)
	}
	owners := cell(34, "owner")
	for n := range count {
		owner := v.owners[n]
		if owner == "" {
			owner = "?"
		}
		owners += strings.Repeat(" ", column-1) + cell(1, owner)
	}
	slices.Sort(loading)
	about := p.in(green, "●") + " open  " + p.in(yellow, "◐") + " loading  " + p.in(red, "○") + " locked  " + p.in(dim, "· not its own")
	if len(loading) > 0 {
		about += p.in(yellow, "   loading shard "+cell(max(width-64, 20), strings.Join(loading, ", ")))
	}
	return append(lines, p.in(dim, owners), "", about)
}

func sign(state string) (text, color string) {
	switch state {
	case "OPEN":
		return "●", green
	case "LOADING":
		return "◐", yellow
	case "LOCKED":
		return "○", red
	default:
		return "·", dim
	}
}

// numbers: how many messages, and how many in each of the last seconds.
func (p painter) numbers(v *view, width int) []string {
	if v.crowd == nil {
		return []string{p.in(dim, "no messages yet"), ""}
	}
	sent, stored, received := v.crowd.Sent.Load(), v.crowd.Stored.Load(), v.crowd.Received.Load()
	waiting := ""
	if n := sent - stored; n > 0 {
		waiting = fmt.Sprintf("   %d on their way", n)
	}
	first := "messages  " + p.in(bold, fmt.Sprint(sent)) + " sent   " + p.in(bold, fmt.Sprint(stored)) + " stored   " +
		p.in(bold, fmt.Sprint(received)) + fmt.Sprintf(" received by %d subscribers", 2*v.o.rooms) + p.in(yellow, waiting)
	rates := v.rates[max(len(v.rates)-max(width-30, 1), 0):]
	return []string{first, "a second  " + p.in(cyan, bars(rates)) + last(rates)}
}

func last(rates []int64) string {
	if len(rates) == 0 {
		return ""
	}
	return fmt.Sprintf(" %d", rates[len(rates)-1])
}

// bars draws a number as a bar each.
func bars(numbers []int64) string {
	const steps = "▁▂▃▄▅▆▇█"
	top := int64(1)
	for _, n := range numbers {
		top = max(top, n)
	}
	var b strings.Builder
	for _, n := range numbers {
		if n <= 0 {
			b.WriteByte(' ')
			continue
		}
		b.WriteRune([]rune(steps)[n*7/top])
	}
	return b.String()
}

func clock(d time.Duration) string {
	d = d.Round(time.Second)
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// news are the events from the given number on, as lines, and the number of events so far.
func (v *view) news(from int) (lines []string, next int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range v.events[from:] {
		lines = append(lines, clock(e.at)+"  "+e.text)
	}
	return lines, len(v.events)
}

// summary is one line for all numbers.
func (v *view) summary() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	line := clock(time.Since(v.began)) + " "
	for _, i := range v.instances {
		open, loading := 0, 0
		for _, s := range i.shards {
			switch s.State {
			case "OPEN":
				open++
			case "LOADING":
				loading++
			}
		}
		switch {
		case i.gone != "":
			line += fmt.Sprintf(" %s %s", i.Name, i.gone)
		case loading > 0:
			line += fmt.Sprintf(" %s open %d, loading %d", i.Name, open, loading)
		default:
			line += fmt.Sprintf(" %s open %d", i.Name, open)
		}
		line += ";"
	}
	if v.crowd != nil {
		line += fmt.Sprintf(" %d sent, %d stored, %d received", v.crowd.Sent.Load(), v.crowd.Stored.Load(), v.crowd.Received.Load())
	}
	return line
}
