package membership

import (
	"context"
	"errors"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
)

// seat keeps the place of a member in the group from the end of one generation to the beginning of the next,
// when kafka-go sends no heartbeats: while the handler drains, and while a JoinGroup waits for other members.
//
// It keeps no right to serve anything, the lease has ended. It keeps the session from running out, and it
// notices within about an rpc timeout what a parked request would hide until its own, long deadline:
//
//   - the group does not know the member any more. A coordinator should answer the parked JoinGroup then; the
//     embedded broker does not;
//   - the group is stable and waits for nobody: our JoinGroup did not get there.
//
// In both cases it cuts kafka-go's connections, and a new member joins.
type seat struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	joined time.Time // when kafka-go was let go to rejoin; zero: not yet
}

// keepSeat begins for the generation that has just ended.
func (l *life) keepSeat(g *Generation) *seat {
	ctx, cancel := context.WithCancel(context.Background())
	s := &seat{cancel: cancel}
	s.done.Go(func() { s.run(ctx, l, g) })
	return s
}

// rejoin says that kafka-go goes on now.
func (s *seat) rejoin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined = time.Now()
}

// release ends it. nil is a seat that nobody keeps.
func (s *seat) release() {
	if s == nil {
		return
	}
	s.cancel()
	s.done.Wait()
}

func (s *seat) run(ctx context.Context, l *life, g *Generation) {
	cfg := &l.m.cfg
	ticker := time.NewTicker(cfg.Timeouts.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		asked := time.Now()
		bctx, done := context.WithTimeout(ctx, cfg.Timeouts.RPC)
		err := cfg.Coordinator.Heartbeat(bctx, cfg.Group, g.ID, g.MemberID)
		done()
		s.mu.Lock()
		lost := err == nil && !s.joined.IsZero() && asked.Sub(s.joined) > cfg.Timeouts.RPC
		s.mu.Unlock()
		// A rebalance and an old generation are what we expect to hear; a failure says nothing.
		if gone := errors.Is(err, kafka.UnknownMemberId) || errors.Is(err, kafka.FencedInstanceID); (gone || lost) && ctx.Err() == nil {
			cfg.Log.Warn("joining again as a new member", "member", g.MemberID, "unknown", gone, "unheard", lost)
			l.conns.cut()
			return
		}
	}
}
