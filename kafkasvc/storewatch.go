package kafkasvc

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// storeRetry is the time between attempts to start a failed local store anew: a full disk takes a person.
const storeRetry = 2 * time.Second

// watchStore starts the local store anew when it has failed as a whole (disk full, I/O errors): the log is the
// truth. Until that works, every shard that needs the store is locked, and the process goes on.
func (h *Home) watchStore(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-h.store.Faulted():
		}
		h.lg.Error("the local store failed: its data are dropped and loaded from the log again", "err", h.store.Fault())
		h.alarm(alarmStore)
		h.breakAll()
		for {
			err := h.store.DropAll()
			if err == nil {
				err = h.store.SetHome(h.dir.Home())
			}
			if err == nil {
				break
			}
			h.lg.Error("the local store cannot be started anew; trying again", "err", err)
			if err := sleep(ctx, storeRetry); err != nil {
				return err
			}
		}
		h.dir.Listed(uuid.UUID{}) // makes the directory notice that its view is gone
		h.announceAgain()
		h.lg.Info("the local store was started anew")
	}
}

// breakAll ends every tenure that serves: its keeper loads it again once the store works.
func (h *Home) breakAll() {
	h.mu.Lock()
	t := h.tenancy
	h.mu.Unlock()
	if t == nil {
		return
	}
	for _, k := range t.keepers {
		if tenure := k.tenure.Load(); tenure != nil {
			_ = tenure.breakDown(h.store.Fault()) // the refusal is for requests
		}
	}
}
