// Command chathome serves chat rooms by GraphQL, kept on Kafka.
//
// The way of the program: config reads flags and environment; serve.go builds an instance out of the broker,
// the chat home, the GraphQL API and the HTTP server; lifecycle.go runs them side by side; stop.go is the one
// place that decides in which order they end.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/chathome/chathome/server/config"
)

// Exit codes are part of the outside surface.
const (
	exitClean = 0
	exitFault = 1
	exitUsage = 2
)

func main() {
	inspect()
	signals := make(chan os.Signal, 2) // two: the first stops, the second exits
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(run(process{
		args:    os.Args[1:],
		out:     os.Stdout,
		err:     os.Stderr,
		signals: signals,
		exit:    os.Exit,
	}))
}

// process is what a program has of the outside, so that tests can be one.
type process struct {
	args     []string
	out, err io.Writer
	signals  <-chan os.Signal
	exit     func(code int) // at once, without cleaning up
}

// run does what the command line asks for and returns the exit code.
func run(p process) int {
	command, err := config.Load(p.args, version(), p.out)
	if err == nil {
		err = p.do(command)
	}
	var usage *config.UsageError
	var faults config.Faults
	switch {
	case err == nil:
		return exitClean
	case errors.As(err, &usage):
		fmt.Fprintf(p.err, "chathome: %v\nRun \"chathome --help\" for what there is.\n", err)
		return exitUsage
	case errors.As(err, &faults):
		fmt.Fprintf(p.err, "chathome: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(p.err, "chathome: %v\n", err)
		return exitFault
	}
}

func (p process) do(command config.Command) error {
	switch command.Name {
	case config.CommandServe:
		return p.serve(command.Serve, command.Secrets)
	case config.CommandBroker:
		return p.broker(command.Broker)
	case config.CommandSchema:
		return p.schema()
	case config.CommandCheck:
		return p.check(command.Serve, command.Secrets)
	case config.CommandACLs:
		return p.acls(command.ACLs)
	case config.CommandExport:
		return p.export(command.Serve, command.Secrets, command.Transfer.File)
	case config.CommandImport:
		return p.importFile(command.Serve, command.Secrets, command.Transfer.File)
	}
	return nil // help or version: done
}

func (p process) logger(l config.Logging) *slog.Logger {
	options := &slog.HandlerOptions{Level: l.LogLevel}
	if l.LogFormat == config.LogJSON {
		return slog.New(slog.NewJSONHandler(p.err, options))
	}
	return slog.New(slog.NewTextHandler(p.err, options))
}

// version is what the Go tool knows of this build: the tag or the commit.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(unknown)"
}
