package hostile

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// strangers lets an attack run in a process of its own and at the lowest priority, so that it takes little from clients
// that behave but what the server spends on it, and says how much time of processors it took. They still notice that:
// so each attack is run twice, once against another server of the same machine.
func strangers(t *testing.T, x attack, address string) (processor time.Duration) {
	t.Helper()
	c := exec.Command("nice", "-n", "19", os.Args[0], "-test.run=^TestHostile$", "-test.timeout=5m", "-at="+address, "-only="+x.name)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", x.name, err, out)
		return 0
	}
	return (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Round(10 * time.Millisecond)
}

// attackers are what runs in that process.
func attackers(t *testing.T) {
	a := newAPI(*at)
	defer a.http.CloseIdleConnections()
	for _, x := range attacks() {
		if x.name == *only {
			x.do(t, a, x.full)
		}
	}
}

// processor is how much time of processors it has used. Zero where there is no /proc.
func (v *victim) processor() time.Duration {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(v.cmd.Process.Pid) + "/stat")
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}
