package cluster

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
)

// guard kills what was started when this process ends in any way, also by kill -9: it is a shell that reads from a
// pipe which only this process holds open. It knows process ids, not names, and forgets those that have ended.
type guard struct {
	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.WriteCloser
}

// The shell gets lines "+ PID" and "- PID". At the end of the pipe it kills what is left.
const guardScript = `
pids=
while read -r op pid; do
	if [ "$op" = + ]; then
		pids="$pids $pid"
	else
		left=
		for p in $pids; do [ "$p" = "$pid" ] || left="$left $p"; done
		pids=$left
	fi
done
for p in $pids; do kill -9 "$p" 2>/dev/null; done
`

func newGuard() (*guard, error) {
	g := &guard{cmd: exec.Command("/bin/sh", "-c", guardScript)}
	// A group of its own: Ctrl-C at a terminal must not end it before the others.
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	return g, nil
}

func (g *guard) tell(op string, pid int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _ = io.WriteString(g.in, op+" "+strconv.Itoa(pid)+"\n") // a dead guard only guards no more
}

// close kills what is left and ends the guard.
func (g *guard) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = g.in.Close()
	_ = g.cmd.Wait()
}
