package kafkasvc

import (
	"context"
	"errors"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/failpoint"
)

// What owners tell the directory. The shard's log is the truth for rooms: whatever of them the directory
// lacks, the owner announces.

// claim implements keeperHome.
func (h *Home) claim(s *shard) announcement {
	c := h.dir.Claim(s.id)
	return func(ctx context.Context, version domain.Offset, rooms bool) {
		if rooms {
			s.announced.Store(false)
		}
		failpoint.Hit(failpoint.BeforeAnnounce, h.gate.self)
		err := h.dir.AnnounceOwner(ctx, c, version)
		failpoint.Hit(failpoint.AfterAnnounce, h.gate.self)
		if err != nil && ctx.Err() == nil {
			h.lg.Warn("owner not announced", "shard", int(s.id), "err", err)
		}
		for {
			h.announceRooms(ctx, s)
			select {
			case <-s.announce:
			case <-ctx.Done():
				return
			}
		}
	}
}

// announceRooms holds every room of the shard against the directory, once, and after that only when there is a
// reason to.
func (h *Home) announceRooms(ctx context.Context, s *shard) {
	for !s.announced.Swap(true) {
		err := h.dir.AnnounceRooms(ctx, s.store().EachRoom)
		if err == nil {
			continue
		}
		s.announced.Store(false)
		if ctx.Err() != nil || errors.Is(err, directory.ErrNewLife) {
			return
		}
		h.lg.Warn("rooms not announced; trying again", "shard", int(s.id), "err", err)
		if defaultWaits().backOff(ctx, 5) != nil {
			return
		}
	}
}

// announceLater lets the owner announce a room whose creator could not wait for it.
func (h *Home) announceLater(id domain.ShardID) {
	s := h.all()[id]
	s.announced.Store(false)
	select {
	case s.announce <- struct{}{}:
	default:
	}
}

// announceAgain: the directory lost records.
func (h *Home) announceAgain() {
	for _, s := range h.all() {
		h.announceLater(s.id)
	}
}
