package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// step is one part of a stop. It must end soon after its context, with errLeft where something is left undone.
type step struct {
	name  string        // what is abandoned when it does not end, for the log
	sure  time.Duration // earlier steps leave it so much time
	limit time.Duration // longest time; 0: all that the later steps leave
	do    func(ctx context.Context) error
}

// grace is how long a step may take to notice that its context ended.
const grace = 200 * time.Millisecond

// stopInOrder runs the steps one after the other within budget. A step that does not end in time is left
// behind, so that the ones after it still get theirs. The error names all steps that were left or failed.
func stopInOrder(log *slog.Logger, budget time.Duration, steps []step) error {
	end := time.Now().Add(budget)
	var errs []error
	var left []string
	for i, s := range steps {
		deadline := end.Add(-reserved(steps[i+1:], budget))
		if s.limit > 0 && time.Until(deadline) > s.limit {
			deadline = time.Now().Add(s.limit)
		}
		switch err := s.runUntil(deadline); {
		case errors.Is(err, errLeft):
			left = append(left, s.name)
		case err != nil:
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	if len(left) > 0 {
		names := strings.Join(left, ", ")
		log.Warn("stopped without waiting any longer", "abandoned", names)
		errs = append(errs, fmt.Errorf("abandoned after the shutdown timeout: %s", names))
	}
	return errors.Join(errs...)
}

// reserved is what the later steps are sure to get, but all together at most half the budget.
func reserved(later []step, budget time.Duration) time.Duration {
	sum := grace
	for _, s := range later {
		sum += s.sure
	}
	return min(sum, budget/2)
}

var errLeft = errors.New("did not end in time")

func (s step) runUntil(deadline time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.do(ctx) }()
	patience := time.NewTimer(time.Until(deadline) + grace)
	defer patience.Stop()
	select {
	case err := <-done:
		return err
	case <-patience.C:
		return errLeft
	}
}

// echo is how soon after the first a signal is the same one: timeout, npm and others pass on what a terminal or they
// themselves have sent to the whole process group.
const echo = 500 * time.Millisecond

// exitOnSecondSignal watches for one until it is told not to.
func (p process) exitOnSecondSignal(log *slog.Logger) (stop func()) {
	done, first := make(chan struct{}), time.Now()
	go func() {
		for {
			select {
			case <-done:
				return
			case <-p.signals:
				if time.Since(first) >= echo {
					log.Error("exiting at once after a second signal")
					p.exit(exitFault)
					return
				}
			}
		}
	}()
	return func() { close(done) }
}
