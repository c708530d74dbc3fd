package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chathome/chathome/internal/bubbletest"
)

func TestStopInOrder(t *testing.T) {
	wait := func(d time.Duration) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case <-time.After(d):
				return nil
			case <-ctx.Done():
				return nil
			}
		}
	}
	finishes := func(d time.Duration) func(context.Context) error { // whatever its context says
		return func(context.Context) error {
			time.Sleep(d)
			return nil
		}
	}
	fails := func(context.Context) error { return errors.New("broken") }
	for _, tc := range []struct {
		why   string
		steps []step
		took  time.Duration
		want  string // of the error
	}{
		{"quick steps take no longer than they need", []step{{name: "a", do: wait(time.Second)}, {name: "b", do: wait(time.Second)}}, 2 * time.Second, ""},
		{"a step ends with its own limit", []step{{name: "a", limit: time.Second, do: wait(time.Hour)}, {name: "b", do: wait(0)}}, time.Second, ""},
		{"a long step leaves the later ones their time", []step{{name: "a", do: wait(time.Hour)}, {name: "b", sure: 2 * time.Second, do: wait(2 * time.Second)}}, 10*time.Second - grace, ""},
		{"a step takes what is left, beyond what it was sure of", []step{{name: "a", do: wait(0)}, {name: "b", sure: time.Second, do: finishes(8 * time.Second)}, {name: "c", sure: time.Second, do: wait(0)}}, 8 * time.Second, ""},
		{"a step that hangs is named, and the next one runs", []step{{name: "a"}, {name: "b", sure: time.Second, do: fails}}, 9*time.Second - grace + grace, "b: broken\nabandoned after the shutdown timeout: a"},
		{"all that hang are named, within the budget", []step{{name: "a"}, {name: "b", sure: time.Second}, {name: "c", sure: time.Second}}, 10*time.Second + grace, "abandoned after the shutdown timeout: a, b, c"},
	} {
		t.Run(tc.why, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				ran := make(chan string, len(tc.steps))
				for i, s := range tc.steps {
					do := s.do
					if do == nil {
						do = func(context.Context) error { <-release; return nil }
					}
					tc.steps[i].do = func(ctx context.Context) error {
						ran <- s.name
						return do(ctx)
					}
				}
				began := time.Now()
				err := stopInOrder(slog.New(slog.NewTextHandler(io.Discard, nil)), 10*time.Second, tc.steps)
				if took := time.Since(began); took > tc.took {
					t.Errorf("took %s, want at most %s", took, tc.took)
				}
				if text := errorText(err); text != tc.want {
					t.Errorf("got error %q, want %q", text, tc.want)
				}
				close(release)
				synctest.Wait()
				for _, s := range tc.steps {
					if got := <-ran; got != s.name {
						t.Errorf("ran %s where %s was due", got, s.name)
					}
				}
			})
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}

// GNU timeout sends a signal to its child and then to the process group, so the child gets it twice.
func TestStop_ASignalThatComesTwiceIsOne(t *testing.T) {
	for _, tc := range []struct {
		after time.Duration
		exits bool
	}{{0, false}, {echo - 1, false}, {echo, true}, {time.Minute, true}} {
		bubbletest.Test(t, func(t *testing.T) {
			signals, code := make(chan os.Signal, 1), -1
			p := process{signals: signals, exit: func(c int) { code = c }}
			stop := p.exitOnSecondSignal(slog.New(slog.DiscardHandler))
			time.Sleep(tc.after)
			signals <- os.Interrupt
			synctest.Wait()
			if exits := code == exitFault; exits != tc.exits {
				t.Errorf("after %s: exits %v, want %v", tc.after, exits, tc.exits)
			}
			stop()
		})
	}
}
