package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// screen shows a view: as a table that renews itself on a terminal, as lines elsewhere.
type screen struct {
	view *view
	out  *os.File
	stop chan struct{}
	once sync.Once
	wg   sync.WaitGroup
}

func newScreen(v *view, out *os.File) *screen {
	s := &screen{view: v, out: out, stop: make(chan struct{})}
	if _, _, ok := s.size(); ok && os.Getenv("TERM") != "dumb" {
		s.wg.Go(s.table)
	} else {
		s.wg.Go(s.lines)
	}
	return s
}

// end shows the last state and no more.
func (s *screen) end() {
	s.once.Do(func() { close(s.stop) })
	s.wg.Wait()
}

// size is that of the terminal; false: it is none.
func (s *screen) size() (width, height int, ok bool) {
	ws, err := unix.IoctlGetWinsize(int(s.out.Fd()), unix.TIOCGWINSZ)
	if err != nil || ws.Col == 0 || ws.Row == 0 {
		return 0, 0, false
	}
	return int(ws.Col), int(ws.Row), true
}

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clear      = "\x1b[2J"
	home       = "\x1b[H"
	lineEnd    = "\x1b[K\n" // what an earlier picture left in the line goes
	below      = "\x1b[J"
)

func (s *screen) table() {
	fmt.Fprint(s.out, hideCursor+clear)
	defer fmt.Fprint(s.out, showCursor)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	paint := painter{color: os.Getenv("NO_COLOR") == ""}
	var width, height int
	for {
		w, h, ok := s.size()
		if ok && (w != width || h != height) {
			width, height = w, h
			fmt.Fprint(s.out, clear)
		}
		picture := home
		for _, line := range paint.table(s.view, width, height-1) {
			picture += line + lineEnd
		}
		fmt.Fprint(s.out, picture+below)
		select {
		case <-tick.C:
		case <-s.stop:
			return
		}
	}
}

// summaryEvery is the time between two lines of numbers.
const summaryEvery = 5 * time.Second

func (s *screen) lines() {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	told, last := 0, time.Now()
	for over := false; ; {
		var lines []string
		lines, told = s.view.news(told)
		if time.Since(last) >= summaryEvery {
			last = time.Now()
			lines = append(lines, s.view.summary())
		}
		for _, line := range lines {
			fmt.Fprintln(s.out, line)
		}
		if over {
			return
		}
		select {
		case <-tick.C:
		case <-s.stop:
			over = true
		}
	}
}
