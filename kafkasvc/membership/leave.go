package membership

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrLeftBehind: Run had to return before kafka-go's group was closed.
var ErrLeftBehind = errors.New("membership: the consumer group did not close in time")

// leave closes the group, in steps that get ruder:
//
//  1. Close: kafka-go ends the generation (Handler.Revoked) and sends LeaveGroup. This is the normal case, and
//     waiting for it is what makes the shards move at once: Next returns before LeaveGroup is sent.
//  2. A JoinGroup or SyncGroup that is parked at the broker keeps kafka-go from leaving. Our own LeaveGroup for
//     the member takes it out of the group, and the broker then answers the parked request.
//  3. After the leave timeout the connections are cut. A member whose id is not known yet (its first JoinGroup is
//     parked) stays as a ghost then: the group gives it shards that nobody serves until the coordinator misses
//     its SyncGroup or heartbeat, at most a rebalance or session timeout later (the embedded broker misses it at
//     the next rebalance only), or until the instance is back: a ghost of its own holds nothing (balancer.go).
//     That is the price of a bounded stop.
func (l *life) leave() error {
	l.stand()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = l.cg.Close() // its error is always nil
		l.conns.cut()
	}()
	limit := l.m.cfg.Timeouts
	if l.tenure != nil && !within(limit.drain()+limit.Leave, l.tenure) {
		l.conns.cut()
		return fmt.Errorf("%w: the handler still drains", ErrLeftBehind)
	}
	nudge := limit.Leave / 4
	if within(nudge, closed) {
		return nil
	}
	gone, patience := false, limit.Leave-nudge
	if l.member != "" {
		gone = l.leaveOnOurOwn(limit.Leave / 4)
		patience = limit.Leave / 2
		if gone {
			patience = limit.Leave / 10 // there is nothing left to wait for
		}
	}
	if within(patience, closed) {
		return nil
	}
	l.conns.cut()
	if !gone {
		l.m.cfg.Log.Warn("cut the connections to leave the group: a ghost may hold shards until it is missed",
			"group", l.m.cfg.Group, "member", l.member)
	}
	if within(limit.Leave, closed) {
		return nil
	}
	return ErrLeftBehind
}

// leaveOnOurOwn takes the member of the last generation out of the group. No tenure of it runs any more. It
// returns whether the coordinator has answered.
func (l *life) leaveOnOurOwn(limit time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	err := l.m.cfg.Coordinator.LeaveGroup(ctx, l.m.cfg.Group, l.member)
	l.m.cfg.Log.Info("asked the coordinator to forget the member", "member", l.member, "err", err)
	return err == nil || verdict(err) != nil
}

func within(limit time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
