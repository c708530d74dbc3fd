package membership

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Timeouts are the times that membership lives by. Their relations keep two instances from answering for one
// shard; Validate refuses those that do not.
type Timeouts struct {
	Heartbeat time.Duration // pause between heartbeats
	Session   time.Duration // a member that is silent for so long is evicted
	Rebalance time.Duration // a member that does not rejoin a rebalance within it is evicted, however long its session
	RPC       time.Duration // limit of one request to the coordinator, and of a dial
	Margin    time.Duration // the lease ends this much before the first moment that an eviction is possible
	Drain     time.Duration // limit of Handler.Revoked
	Leave     time.Duration // limit of leaving the group, after Handler.Revoked has returned
}

// DefaultTimeouts are the documented defaults.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Heartbeat: 200 * time.Millisecond,
		Session:   6 * time.Second,
		Rebalance: 4 * time.Second,
		RPC:       time.Second,
		Margin:    500 * time.Millisecond,
		Drain:     time.Second,
		Leave:     time.Second,
	}
}

// maxTimeout keeps times within the protocol's 32-bit milliseconds.
const maxTimeout = math.MaxInt32 * time.Millisecond

// Validate names every fault at once; nil when there is none.
//
// Session and rebalance timeout must also lie within the broker's own limits (group.min.session.timeout.ms and
// group.max.session.timeout.ms, 6 s and 30 min by default); only the broker can say so.
func (t Timeouts) Validate() error {
	var faults []error
	for _, v := range []struct {
		name string
		d    time.Duration
	}{
		{"heartbeat interval", t.Heartbeat},
		{"session timeout", t.Session},
		{"rebalance timeout", t.Rebalance},
		{"rpc timeout", t.RPC},
		{"lease margin", t.Margin},
		{"drain timeout", t.Drain},
		{"leave timeout", t.Leave},
	} {
		switch {
		case v.d < time.Millisecond:
			faults = append(faults, fmt.Errorf("%s %v is below 1ms", v.name, v.d))
		case v.d > maxTimeout:
			faults = append(faults, fmt.Errorf("%s %v is above %v", v.name, v.d, maxTimeout))
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...) // relations between such values say nothing
	}
	least := t.Heartbeat + t.RPC + t.Margin
	if t.Session <= least {
		faults = append(faults, fmt.Errorf("session timeout %v must be above %v (heartbeat interval %v + rpc timeout %v + lease margin %v): one slow heartbeat would close the gate",
			t.Session, least, t.Heartbeat, t.RPC, t.Margin))
	}
	if t.Rebalance <= least {
		faults = append(faults, fmt.Errorf("rebalance timeout %v must be above %v (heartbeat interval %v + rpc timeout %v + lease margin %v): a member would be evicted before it can hear of the rebalance and rejoin",
			t.Rebalance, least, t.Heartbeat, t.RPC, t.Margin))
	}
	if t.Drain >= t.Rebalance {
		faults = append(faults, fmt.Errorf("drain timeout %v must be below the rebalance timeout %v: the member would be evicted while it drains",
			t.Drain, t.Rebalance))
	}
	return errors.Join(faults...)
}

// Term is how long one good heartbeat is worth, from the moment it was sent: a member that misses a rebalance
// is evicted after the rebalance timeout, one that is silent after the session timeout, whichever is first.
func (t Timeouts) Term() time.Duration { return min(t.Session, t.Rebalance) - t.Margin }

// drain is what is left of Drain so that the member still hears of a rebalance (one heartbeat), drains and
// rejoins (one request) within the rebalance timeout. Positive for valid Timeouts.
func (t Timeouts) drain() time.Duration { return min(t.Drain, t.Rebalance-t.Heartbeat-t.RPC) }
