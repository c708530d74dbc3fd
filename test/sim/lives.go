package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/chathome/chathome/domain"
)

// anotherLife deletes both topics while everything runs. The instances have to notice, drop what they have of the
// life before, and serve the new one; cursors of the old life lead nowhere.
func (w *world) anotherLife(r *rand.Rand) {
	if w.failed() {
		return
	}
	old := w.nodes[0].life().home.Home()
	w.brokers.Lock()
	topics := []string{messages, directory}
	if r.IntN(2) == 0 {
		topics[0], topics[1] = topics[1], topics[0]
	}
	for _, topic := range topics {
		if err := w.cluster.DeleteTopic(topic); err != nil {
			w.violated("the harness", "delete %s: %v", topic, err)
		}
	}
	w.brokers.Unlock()
	w.note(kindFault, "topics recreated", "both topics were deleted")
	err := w.eventually(opensWithin, func() error {
		for _, n := range w.nodes {
			if h := n.life().home.Home(); h == old {
				return fmt.Errorf("%s still lives in the old life", n.id)
			}
		}
		return w.allOpen()
	})
	if err != nil {
		w.violated("stuck loading", "%v after the topics were deleted: %v", opensWithin, err)
		return
	}
	w.report.Strikes["topics recreated"]++
	w.report.Bites["topics recreated"]++
	before := w.current()
	for _, s := range before.subs {
		if s.cursor == "" {
			continue
		}
		c, err := domain.ParseCursor(s.cursor)
		if err != nil {
			w.violated("the harness", "%v", err)
			continue
		}
		for _, n := range w.nodes {
			room, err := n.life().home.ChatRoom(w.t.Context(), s.room.Shard, s.room.ID)
			var unknown *domain.UnknownChatRoomError
			var no *domain.ShardNotOwnedError
			if errors.As(err, &unknown) || errors.As(err, &no) {
				continue
			}
			if err == nil {
				_, err = room.Resolve(w.t.Context(), c)
			}
			var gone *domain.CursorOutOfRangeError
			if !errors.As(err, &gone) && !errors.As(err, &no) {
				w.violated("a cursor of another life", "%s at %s: %v", s.name, n.id, err)
			}
		}
	}
	time.Sleep(time.Second)
}
