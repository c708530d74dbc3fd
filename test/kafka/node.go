package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// Node is one JVM of a cluster: broker and controller.
type Node struct {
	ID      int
	cluster *Cluster
	dir     string

	port, controllerPort, securePort int

	mu   sync.Mutex
	proc *process // nil while it is down
}

// Addr is the address of its plain listener.
func (n *Node) Addr() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }

// SecureAddr is the address of its second listener, where there is one.
func (n *Node) SecureAddr() string { return fmt.Sprintf("127.0.0.1:%d", n.securePort) }

func (n *Node) dataDir() string    { return filepath.Join(n.dir, "data") }
func (n *Node) configFile() string { return filepath.Join(n.dir, "server.properties") }

// LogFile is where it writes its log.
func (n *Node) LogFile() string { return filepath.Join(n.dir, "log") }

// process is a running JVM and its watchdog.
type process struct {
	cmd      *exec.Cmd
	ended    chan struct{} // closed when the JVM has ended
	watchdog *exec.Cmd
	leash    io.Closer // the watchdog bites when this end of its pipe closes
}

// watchdogScript ends the JVM when this process is gone: a read from the pipe returns then. It knows its pid and
// nothing else.
const watchdogScript = `read -r order; test "$order" = down || kill -9 "$1"`

// Start starts the JVM of a node that is down. It does not wait until it serves.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.running() {
		return fmt.Errorf("node %d is up already", n.ID)
	}
	log, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of node %d: %w", n.ID, err)
	}
	defer log.Close()
	args := append(n.cluster.jvm("-Xmx400m", "-Xms128m", "info"), "kafka.Kafka", n.configFile())
	cmd := exec.Command("java", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this process: it stops the nodes in order
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start node %d: %w", n.ID, err)
	}
	p := &process{cmd: cmd, ended: make(chan struct{})}
	p.watchdog = exec.Command("sh", "-c", watchdogScript, "watchdog", fmt.Sprint(cmd.Process.Pid))
	p.watchdog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	leash, err := p.watchdog.StdinPipe()
	if err == nil {
		err = p.watchdog.Start()
	}
	if err != nil {
		err = errors.Join(err, cmd.Process.Kill(), cmd.Wait())
		return fmt.Errorf("start the watchdog of node %d: %w", n.ID, err)
	}
	p.leash = leash
	go func() {
		_ = cmd.Wait() // how it ended is in its log, and most of them are killed
		// The pid is free for others from now on.
		_, _ = io.WriteString(leash, "down\n") // a watchdog that is gone harms nobody
		_ = leash.Close()
		_ = p.watchdog.Wait()
		close(p.ended)
	}()
	n.proc = p
	return nil
}

// signal sends a signal to a node that is up.
func (n *Node) signal(s syscall.Signal) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.proc == nil {
		return fmt.Errorf("node %d is down", n.ID)
	}
	if err := n.proc.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v to node %d: %w", s, n.ID, err)
	}
	return nil
}

// Pause stops the process as a hypervisor would; Resume lets it go on.
func (n *Node) Pause() error { return n.signal(syscall.SIGSTOP) }

// Resume ends Pause.
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT) }

// Kill ends it at once, as a power cut of the process would, and waits for that.
func (n *Node) Kill() error {
	if err := n.signal(syscall.SIGKILL); err != nil {
		return err
	}
	return n.wait(10 * time.Second)
}

// Stop lets it hand its partitions over and end, and kills it where that takes too long.
func (n *Node) Stop() error {
	if err := n.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if n.wait(stopTime) == nil {
		return nil
	}
	return n.Kill()
}

// stopTime is what a node gets to stop in order. The last of three finds no controller and would wait for minutes.
const stopTime = 10 * time.Second

// Up says whether its process runs.
func (n *Node) Up() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running()
}

// running needs n.mu.
func (n *Node) running() bool {
	if n.proc == nil {
		return false
	}
	select {
	case <-n.proc.ended:
		return false
	default:
		return true
	}
}

// PID is its process id, 0 while it is down.
func (n *Node) PID() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.running() {
		return 0
	}
	return n.proc.cmd.Process.Pid
}

func (n *Node) wait(limit time.Duration) error {
	n.mu.Lock()
	p := n.proc
	n.mu.Unlock()
	if p == nil {
		return nil
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.ended:
	case <-t.C:
		return fmt.Errorf("node %d runs on after %v", n.ID, limit)
	}
	n.mu.Lock()
	n.proc = nil
	n.mu.Unlock()
	return nil
}

// format prepares the node's disk.
func (n *Node) format(ctx context.Context, clusterID string) error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of node %d: %w", n.ID, err)
	}
	if err := n.configure(); err != nil {
		return err
	}
	args := append(n.cluster.jvm("-Xmx128m", "-Xms32m", "warn"), "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", n.configFile())
	args = append(args, n.cluster.cfg.Secure.scramArguments()...)
	if out, err := exec.CommandContext(ctx, "java", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("format the disk of node %d: %w\n%s", n.ID, err, out)
	}
	return nil
}

// configure writes the node's properties; they hold from its next start.
func (n *Node) configure() error {
	if err := os.WriteFile(n.configFile(), []byte(n.cluster.properties(n).String()), 0o600); err != nil {
		return fmt.Errorf("write the properties of node %d: %w", n.ID, err)
	}
	return nil
}
