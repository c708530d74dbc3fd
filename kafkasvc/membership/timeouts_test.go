package membership

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimeouts_Validate(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Timeouts)
		faults []string // parts of the error, one a fault; none: valid
	}{
		{"the defaults", func(*Timeouts) {}, nil},
		{"just long enough", func(t *Timeouts) { t.Session, t.Rebalance = 1701*time.Millisecond, 1701*time.Millisecond }, nil},
		{"session too short", func(t *Timeouts) { t.Session = 1700 * time.Millisecond }, []string{"session timeout 1.7s must be above 1.7s"}},
		{"rebalance too short", func(t *Timeouts) { t.Rebalance = 1700 * time.Millisecond }, []string{"rebalance timeout 1.7s must be above 1.7s"}},
		{"heartbeat too slow", func(t *Timeouts) { t.Heartbeat = 3 * time.Second }, []string{"rebalance timeout 4s must be above 4.5s"}},
		{"drain outlasts the rebalance", func(t *Timeouts) { t.Drain = 4 * time.Second }, []string{"drain timeout 4s must be below the rebalance timeout 4s"}},
		{"everything at once", func(t *Timeouts) { t.Session, t.Rebalance, t.Drain = time.Second, time.Second, time.Second },
			[]string{"session timeout", "rebalance timeout", "drain timeout"}},
		{"nothing set", func(t *Timeouts) { *t = Timeouts{} },
			[]string{"heartbeat interval 0s", "session timeout 0s", "rebalance timeout 0s", "rpc timeout 0s", "lease margin 0s", "drain timeout 0s", "leave timeout 0s"}},
		{"negative", func(t *Timeouts) { t.Rebalance = -1 }, []string{"rebalance timeout -1ns is below 1ms"}},
		{"beyond the protocol", func(t *Timeouts) { t.Session = 30 * 24 * time.Hour }, []string{"session timeout 720h0m0s is above"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			times := DefaultTimeouts()
			tt.change(&times)
			err := times.Validate()
			if (err == nil) != (len(tt.faults) == 0) {
				t.Fatalf("got %v", err)
			}
			if err == nil {
				return
			}
			if n := strings.Count(err.Error(), "\n") + 1; n != len(tt.faults) {
				t.Errorf("%d faults, want %d: %v", n, len(tt.faults), err)
			}
			for _, f := range tt.faults {
				if !strings.Contains(err.Error(), f) {
					t.Errorf("%v\ndoes not name %q", err, f)
				}
			}
		})
	}
}

func TestTimeouts_ValidOnesLeaveTimeForWhatTheyMust(t *testing.T) {
	gen := rapid.Int64Range(0, 8000)
	rapid.Check(t, func(t *rapid.T) {
		ms := func(name string) time.Duration { return time.Duration(gen.Draw(t, name)) * time.Millisecond }
		times := Timeouts{ms("heartbeat"), ms("session"), ms("rebalance"), ms("rpc"), ms("margin"), ms("drain"), ms("leave")}
		if times.Validate() != nil {
			return
		}
		if times.Term() <= times.Heartbeat+times.RPC {
			t.Errorf("one slow heartbeat closes the gate: %+v", times)
		}
		if d := times.drain(); d <= 0 || times.Heartbeat+d+times.RPC > times.Rebalance {
			t.Errorf("drain %v: %+v", d, times)
		}
	})
}
