package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is one process of the program. It can be started again after it has ended; the log goes on in the same
// file. Its methods may be called by one goroutine at a time, except Running, Paused and PID.
type Process struct {
	Name    string
	LogFile string // what it writes to its outputs

	program string
	args    []string
	guard   *guard

	mu     sync.Mutex
	cmd    *exec.Cmd
	ended  chan struct{} // closed when cmd has ended
	paused bool
}

// ErrRunning: it has been started and has not ended.
var ErrRunning = errors.New("already running")

func (p *Process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("start %s: %w", p.Name, ErrRunning)
	}
	log, err := os.OpenFile(p.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer log.Close()
	cmd := exec.Command(p.program, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	for _, entry := range os.Environ() { // settings of whoever runs the harness are not meant for it
		if !strings.HasPrefix(entry, "CHATHOME_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C at a terminal is for the harness
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.guard.tell("+", cmd.Process.Pid)
	ended := make(chan struct{})
	p.cmd, p.ended, p.paused = cmd, ended, false
	go func() {
		_ = cmd.Wait() // the state is read from cmd
		p.guard.tell("-", cmd.Process.Pid)
		close(ended)
	}()
	return nil
}

func (p *Process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Running says whether it has been started and has not ended.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

// Paused says whether it runs, but is stopped by Pause.
func (p *Process) Paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running() && p.paused
}

// PID is its process id, 0 while it does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return 0
	}
	return p.cmd.Process.Pid
}

// Ended is closed when the present process ends; it is nil before the first start.
func (p *Process) Ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return fmt.Errorf("signal %s: %w", p.Name, os.ErrProcessDone)
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	switch s {
	case syscall.SIGSTOP:
		p.paused = true
	case syscall.SIGCONT:
		p.paused = false
	}
	return nil
}

// Pause stops it with SIGSTOP and returns when it stands still.
func (p *Process) Pause() error {
	if err := p.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	// The signal is taken by one thread, which may have to wait for a processor while the others run on.
	for range 200 {
		time.Sleep(5 * time.Millisecond)
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
		if errors.Is(err, os.ErrNotExist) { // not Linux: nobody to ask
			time.Sleep(50 * time.Millisecond)
			return nil
		}
		if state := bytes.LastIndexByte(stat, ')'); state > 0 && bytes.HasPrefix(stat[state:], []byte(") T")) {
			return nil
		}
	}
	return fmt.Errorf("pause %s: it runs on", p.Name)
}

// Resume lets it go on with SIGCONT.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// Kill ends it with SIGKILL and waits for its end. It is no error when it does not run.
func (p *Process) Kill() error {
	if !p.Running() {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.Ended()
	return nil
}

// Stop asks it to end with SIGTERM and waits up to limit; then it is killed, and that is an error, as is another
// exit code than 0.
func (p *Process) Stop(limit time.Duration) error {
	if !p.Running() {
		return nil
	}
	if err := p.signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.Ended():
	case <-time.After(limit):
		return errors.Join(fmt.Errorf("%s did not stop within %v", p.Name, limit), p.Kill())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with %s when asked to stop", p.Name, p.cmd.ProcessState)
	}
	return nil
}

// How says how the last process ended, for people.
func (p *Process) How() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cmd == nil:
		return "not started"
	case p.running():
		return "running"
	}
	return p.cmd.ProcessState.String()
}
