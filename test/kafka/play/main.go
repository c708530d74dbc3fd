// Command play starts real Kafka brokers on loopback for a person, prints how to reach them, and ends them with
// Ctrl-C:
//
//	go run ./test/kafka/play -version 4.4 -nodes 3
//
// With a command behind two hyphens it runs that instead, with the brokers in CHATHOME_BROKERS (which chathome reads)
// and CHATHOME_KAFKA (which tests read), and ends with its exit code:
//
//	go run ./test/kafka/play -- go test -tags kafka ./kafkasvc/kafkalog -run Real
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/chathome/chathome/test/kafka"
)

func main() {
	version := flag.String("version", string(kafka.Newest), "version of Apache Kafka: 3.9, 4.0 or 4.4")
	nodes := flag.Int("nodes", 1, "number of brokers: 1 or 3")
	need := flag.Bool("need", false, "only say what is missing on this machine")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	code, err := play(ctx, *version, *nodes, *need, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func play(ctx context.Context, name string, nodes int, need bool, command []string) (code int, err error) {
	if need {
		if err := kafka.Need(ctx, kafka.Versions()...); err != nil {
			return 1, err
		}
		return 0, nil
	}
	version, err := kafka.ParseVersion(name)
	if err != nil {
		return 2, err
	}
	if nodes < 1 || nodes > 9 {
		return 2, fmt.Errorf("%d brokers: take 1 to 9", nodes)
	}
	dir, err := os.MkdirTemp("", "chathome-kafka-")
	if err != nil {
		return 1, fmt.Errorf("make a folder for the brokers: %w", err)
	}
	fmt.Fprintf(os.Stderr, "starting Apache Kafka %s in %s\n", version, dir)
	quick := kafka.Quick()
	quick["group.min.session.timeout.ms"] = "1000" // a killed instance is missed sooner than on a stock broker
	c, err := kafka.Start(ctx, kafka.Config{Version: version, Nodes: nodes, Properties: quick, Dir: dir})
	if err != nil {
		return 1, err // and the logs stay
	}
	defer func() {
		if stopped := errors.Join(c.Stop(), os.RemoveAll(dir)); stopped != nil {
			code, err = max(code, 1), errors.Join(err, stopped)
		}
	}()
	brokers := strings.Join(c.Addrs(), ",")
	if len(command) > 0 {
		return run(command, brokers)
	}
	for _, n := range c.Nodes() {
		fmt.Fprintf(os.Stderr, "log of node %d: %s\n", n.ID, n.LogFile())
	}
	fmt.Fprintf(os.Stderr, "its tools: java -cp '%s' org.apache.kafka.tools.TopicCommand --bootstrap-server %s --list\n", filepath.Join(c.Jars(), "*"), c.Addrs()[0])
	fmt.Printf("--brokers %s\n", brokers)
	<-ctx.Done()
	return 0, nil
}

func run(command []string, brokers string) (code int, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "CHATHOME_BROKERS="+brokers, "CHATHOME_KAFKA="+brokers)
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("run %s: %w", command[0], err)
	}
	// Ctrl-C reaches the command by itself: a terminal sends it to both.
	passed := make(chan os.Signal, 1)
	signal.Notify(passed, syscall.SIGTERM)
	defer signal.Stop(passed)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-passed:
			_ = cmd.Process.Signal(s) // it may just have ended
			continue
		case err = <-ended:
		}
		break
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 1, fmt.Errorf("run %s: %w", command[0], err)
	}
	return max(cmd.ProcessState.ExitCode(), 0), nil
}
