package kafkasvc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/directory"
)

// A life of the topics begins with the first record of the directory. Local data are of one life; data of
// another are dropped before anything is answered.

// lifeLock keeps keepers from starting while local data of another life are being dropped.
type lifeLock struct {
	mu      sync.Mutex
	ready   bool          // the local data are of the present life
	changed chan struct{} // closed at the next set; nil where nobody waits
}

// wait waits until the local data are of the present life.
func (l *lifeLock) wait(ctx context.Context) error { return l.until(ctx, true) }

// waitEnd waits until a life has ended.
func (l *lifeLock) waitEnd(ctx context.Context) error { return l.until(ctx, false) }

func (l *lifeLock) until(ctx context.Context, ready bool) error {
	for {
		l.mu.Lock()
		if l.ready == ready {
			l.mu.Unlock()
			return nil
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *lifeLock) set(ready bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ready = ready
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

var errAnotherLife = errors.New("the topics were deleted and created again")

// newLife implements directory.Hooks.NewLife: lock the gate, end what serves, drop all local data.
func (h *Home) newLife(ctx context.Context, old, now directory.Life) error {
	h.life.set(false)
	h.gate.lock()
	h.mu.Lock()
	t := h.tenancy
	h.mu.Unlock()
	if t != nil {
		h.lg.Error("the topics were deleted and created again; local data are dropped", "old", old.Home.String(), "new", now.Home.String())
		h.alarm(alarmAnotherLife)
		t.stop(errAnotherLife)
		t.gen.Rejoin(errAnotherLife)
		for _, k := range t.keepers {
			select {
			case <-k.done:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return h.adoptLife(old, now)
}

// adoptLife drops the local data of every shard unless they were built from the life now.
func (h *Home) adoptLife(old, now directory.Life) error {
	home, err := h.store.Home()
	if err == nil && home == now.Home {
		return nil
	}
	for i := range max(old.Shards, now.Shards) {
		if err := h.store.Shard(domain.ShardID(i)).Drop(); err != nil {
			return fmt.Errorf("drop local data of another life: %w", err)
		}
	}
	if err := h.store.SetHome(now.Home); err != nil {
		return fmt.Errorf("note the home id of the local data: %w", err)
	}
	return nil
}
