package local_test

import (
	"os"
	"regexp"
	"strconv"
	"syscall"
	"time"
)

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// rss is the largest resident size of this process so far in MB, 0 where the system does not tell.
func rss() float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	m := peak.FindSubmatch(b)
	if m == nil {
		return 0
	}
	kb, _ := strconv.ParseFloat(string(m[1]), 64)
	return kb / 1024
}

// cpu is the time that all threads of this process have worked: on a busy machine it says more than the clock does.
func cpu() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
