package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/chathome/chathome/test/cluster"
)

// cpu is the time that all threads of a process have worked, in steps of 10 ms.
func cpu(pid int) (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("processor time: %w", err)
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // the name before may hold blanks
	const user, system = 11, 12                                         // proc_pid_stat(5): 14 and 15 of all
	if len(fields) <= system {
		return 0, fmt.Errorf("processor time of %d: %q", pid, b)
	}
	u, err1 := strconv.Atoi(fields[user])
	s, err2 := strconv.Atoi(fields[system])
	return time.Duration(u+s) * 10 * time.Millisecond, errors.Join(err1, err2)
}

// spent is what some processes have worked, and what everything on the machine has, with what a hypervisor took.
type spent struct{ chathome, broker, self, all time.Duration }

// othersShare is how much of the machine none of the three had, in a time; a good run has little of it.
func (t spent) othersShare(wall time.Duration) float64 {
	return max(0, t.all-t.chathome-t.broker-t.self).Seconds() / wall.Seconds() / float64(runtime.NumCPU())
}

// allCPU is the time that the processors were not idle.
func allCPU() (time.Duration, error) {
	var user, nice, system, idle, wait, irq, soft, steal int // proc_stat(5)
	b, err := os.ReadFile("/proc/stat")
	if err == nil {
		_, err = fmt.Sscanf(string(b), "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &soft, &steal)
	}
	if err != nil {
		return 0, fmt.Errorf("processor time of the machine: %w", err)
	}
	return time.Duration(user+nice+system+irq+soft+steal) * 10 * time.Millisecond, nil
}

func (s *stage) spent(pid int) (t spent, err error) {
	var errs [4]error
	if pid != 0 {
		t.chathome, errs[0] = cpu(pid)
	}
	t.broker, errs[1] = cpu(s.broker.Node(1).PID())
	t.self, errs[2] = cpu(os.Getpid())
	t.all, errs[3] = allCPU()
	return t, errors.Join(errs[:]...)
}

func (t spent) since(before spent) spent {
	return spent{t.chathome - before.chathome, t.broker - before.broker, t.self - before.self, t.all - before.all}
}

func (t spent) plus(u spent) spent {
	return spent{t.chathome + u.chathome, t.broker + u.broker, t.self + u.self, t.all + u.all}
}

// peakMB is the largest resident size of a process so far.
func peakMB(pid int) (float64, error) {
	var kb float64
	if _, err := fmt.Sscan(procField(fmt.Sprintf("/proc/%d/status", pid), "VmHWM", ""), &kb); err != nil {
		return 0, fmt.Errorf("memory of %d: %w", pid, err)
	}
	return kb / 1024, nil
}

// diary reads the log that an instance writes from one start on.
type diary struct {
	file string
	from int
}

func diaryOf(i *cluster.Instance) *diary {
	b, _ := os.ReadFile(i.LogFile) // before the first start there is none
	return &diary{file: i.LogFile, from: len(b)}
}

// entry is a line of the log: its time and all of it.
type entry struct {
	at   time.Time
	line string
}

// entries are the lines with a message.
func (d *diary) entries(msg string) ([]entry, error) {
	b, err := os.ReadFile(d.file)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	var found []entry
	for line := range strings.Lines(string(b[d.from:])) {
		rest, ok := strings.CutPrefix(line, "time=")
		if !ok || !strings.Contains(line, "msg="+strconv.Quote(msg)) {
			continue
		}
		stamp, _, _ := strings.Cut(rest, " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			return nil, fmt.Errorf("a line of the log without a time: %q", line)
		}
		found = append(found, entry{at, line})
	}
	return found, nil
}

// metrics are sums by name, over all labels.
func (d *diary) metrics(ctx context.Context) (map[string]float64, error) {
	told, err := d.entries("serving metrics")
	if err != nil || len(told) == 0 {
		return nil, errors.Join(errors.New("the log does not say where metrics are"), err)
	}
	_, url, _ := strings.Cut(strings.TrimSpace(told[len(told)-1].line), "url=")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	sums := map[string]float64{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		value := line[strings.LastIndexByte(line, ' ')+1:]
		name := strings.TrimRight(line[:strings.IndexAny(line+" ", "{ ")], " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil && name != "#" {
			sums[name] += v
		}
	}
	return sums, nil
}
