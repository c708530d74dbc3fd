package main

import (
	"bytes"
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"
	"time"
)

var base = time.Now()

// now is nanoseconds since the program began: short in a message's text.
func now() int64 { return int64(time.Since(base)) }

// histogram of times in steps of 64 ns at first, then 64 steps an octave.
type histogram [64 * 40]uint32

func (h *histogram) add(ns int64) { h[bucket(ns)]++ }

func bucket(ns int64) int {
	v := uint64(max(ns, 0)) / 64
	if v < 64 {
		return int(v)
	}
	e := bits.Len64(v) - 7
	return min(e*64+int(v>>e), 64*40-1)
}

func bucketValue(b int) float64 {
	if b < 128 {
		return float64(b) * 64
	}
	e := b/64 - 1
	return float64(uint64(b-e*64)<<e) * 64
}

// quantile in milliseconds; -1 when there is nothing.
func (h *histogram) quantile(p float64) float64 {
	var total, seen uint64
	for _, v := range h {
		total += uint64(v)
	}
	for i, v := range h {
		if seen += uint64(v); total > 0 && float64(seen) >= p*float64(total) {
			return bucketValue(i) / 1e6
		}
	}
	return -1
}

// cpuSeconds is user and system time of a process and, where tree is set, those of its children that ended.
func cpuSeconds(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	k := bytes.LastIndexByte(b, ')')
	if k < 0 {
		return 0
	}
	f := strings.Fields(string(b[k+2:]))
	user, _ := strconv.ParseFloat(f[11], 64)
	system, _ := strconv.ParseFloat(f[12], 64)
	return (user + system) / 100
}

// rssKB is what a process has in memory now, peakKB what it had at most.
func rssKB(pid int) float64  { return statusKB(pid, "VmRSS:") }
func peakKB(pid int) float64 { return statusKB(pid, "VmHWM:") }

func statusKB(pid int, name string) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if strings.HasPrefix(line, name) {
			v, _ := strconv.ParseFloat(strings.Fields(line)[1], 64)
			return v
		}
	}
	return 0
}
