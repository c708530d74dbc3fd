package kafkasvc

import (
	"context"
	"sync"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/failpoint"
	"github.com/chathome/chathome/kafkasvc/membership"
)

// tenancy is one generation of the group here: the keepers of its shards. Assigned starts it, Revoked ends it.
type tenancy struct {
	generation *generation
	keepers    []*keeper
	stop       context.CancelCauseFunc
	gen        *membership.Generation
}

// groupLease is a membership lease as the gate needs it.
type groupLease struct{ *membership.Lease }

// Confirm implements lease.
func (l groupLease) Confirm(ctx context.Context) error { return l.WaitHeartbeatAfter(ctx, l.Now()) }

// Assigned implements membership.Handler: the gate goes from locked to loading. It returns at once.
func (h *Home) Assigned(g *membership.Generation) {
	gen := &generation{id: g.ID, member: g.MemberID, lease: groupLease{g.Lease}}
	stop, cancel := context.WithCancelCause(context.Background())
	t := &tenancy{generation: gen, gen: g, stop: cancel}
	for _, id := range g.Shards {
		t.keepers = append(t.keepers, newKeeper(h.gate, gen, h.all()[id], h, h.budget, defaultWaits(), h.cfg.Now, h.lg))
	}
	h.mu.Lock()
	h.tenancy = t
	h.mu.Unlock()
	h.counts.Generations.Add(1)
	h.lg.Info("shards assigned", "generation", int(g.ID), "shards", len(g.Shards))
	h.gate.assign(gen, g.Shards)
	for _, k := range t.keepers {
		go func() {
			if h.life.wait(stop) != nil {
				close(k.done)
				return
			}
			k.run(stop)
		}()
	}
	go h.watchLease(stop, t)
}

// Revoked implements membership.Handler. kafka-go rejoins when it returns, and then the next owner starts: so
// the gate is locked before anything else, and nothing outlasts ctx but batches that are out, whose answers
// are decided by the log.
func (h *Home) Revoked(ctx context.Context, g *membership.Generation) {
	h.gate.lock()
	failpoint.Hit(failpoint.AfterRevoke, h.gate.self)
	h.mu.Lock()
	t := h.tenancy
	h.mu.Unlock()
	t.stop(errNotCurrent)
	drained := h.drain(ctx, t)
	for _, k := range t.keepers {
		if last := k.tenure.Load(); last != nil {
			k.shard.end(last)
		}
	}
	h.mu.Lock()
	h.tenancy = nil
	h.mu.Unlock()
	h.lg.Info("shards revoked", "generation", int(g.ID), "shards", len(g.Shards), "drained", drained)
}

// drain waits for the keepers, then for the last commit of the group's offsets.
func (h *Home) drain(ctx context.Context, t *tenancy) bool {
	var all sync.WaitGroup
	done := make(chan struct{})
	for _, k := range t.keepers {
		all.Go(func() {
			select {
			case <-k.done:
			case <-ctx.Done():
			}
		})
	}
	go func() { all.Wait(); close(done) }()
	<-done
	drained := ctx.Err() == nil
	h.commitOffsets(ctx, t)
	return drained
}

// watchLease ends subscriptions when the lease lapses: no answer leaves under a lapsed lease, and who follows
// a room must hear why.
func (h *Home) watchLease(stop context.Context, t *tenancy) {
	l := t.gen.Lease
	for {
		select {
		case <-stop.Done():
			return
		case <-l.Lapsed():
		}
		h.gate.lapsed(t.generation)
		if l.WaitHeartbeatAfter(stop, l.Now()) != nil {
			return
		}
		h.gate.touch()
	}
}

// commitOffsets tells the group how far the shards are, for lag tools only: loading trusts the local data.
func (h *Home) commitOffsets(ctx context.Context, t *tenancy) {
	at := map[domain.ShardID]domain.Offset{}
	for _, k := range t.keepers {
		if next := k.confirmed.Load(); next > 0 {
			at[k.shard.id] = domain.Offset(next)
		} else if last := k.tenure.Load(); last != nil && last.begun.Load() {
			at[k.shard.id] = domain.Offset(last.loaded.Load())
		}
	}
	if len(at) == 0 {
		return
	}
	topic := messagesTopic(h.cfg.TopicPrefix)
	err := h.cluster.CommitOffsets(ctx, h.cfg.GroupID, t.generation.id, t.generation.member, topic, at)
	if err != nil {
		h.lg.Debug("offsets not committed", "err", err)
	}
}
