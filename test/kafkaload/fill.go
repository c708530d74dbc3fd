package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/record"
)

const (
	roomsOfShard = 50
	fillBatch    = 1000 // records of one produce request
)

// filler writes a shard's log as its owner would have. Nobody may own the shard meanwhile.
type filler struct {
	log   *kafkalog.Cluster
	topic string
	shard int
	rooms []uuid.UUID
	made  bool
	sent  int // messages
}

func (s *stage) filler(h *home, shard int) *filler {
	f := &filler{log: s.log, topic: h.topic(), shard: shard}
	for range roomsOfShard {
		f.rooms = append(f.rooms, roomOn(shard, h.shards))
	}
	return f
}

// write adds n messages to what was written before.
func (f *filler) write(ctx context.Context, n int) error {
	_, next, err := f.log.Bounds(ctx, f.topic, int32(f.shard))
	if err != nil {
		return fmt.Errorf("fill shard %d: %w", f.shard, err)
	}
	now := domain.MillisOf(time.Now())
	var batch []kafkalog.Record
	if !f.made {
		for _, id := range f.rooms {
			info := domain.ChatRoomInfo{ID: id, Name: "a room", CreatedAt: now}
			batch = append(batch, kafkalog.Record{Key: record.Key(id), Value: record.AppendChatRoom(nil, next, &info)})
			next++
		}
		f.made = true
	}
	values := make([]byte, 0, 512*fillBatch) // of one batch
	for left := n; left > 0 || len(batch) > 0; {
		for ; left > 0 && len(batch) < fillBatch; left-- {
			m := domain.Message{
				Room: f.rooms[f.sent%len(f.rooms)], Serial: domain.Serial(f.sent/len(f.rooms) + 1), User: "user-" + strconv.Itoa(f.sent%997),
				ClientID: fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(f.sent)*2654435761, f.sent), Text: text, SentAt: now,
			}
			from := len(values)
			values = record.AppendMessage(values, next, &m)
			batch = append(batch, kafkalog.Record{Key: record.Key(m.Room), Value: values[from:len(values):len(values)]})
			next++
			f.sent++
		}
		base, err := f.log.Append(ctx, f.topic, int32(f.shard), batch)
		if err != nil {
			return fmt.Errorf("fill shard %d: %w", f.shard, err)
		}
		if want := next - domain.Offset(len(batch)); base != want {
			return fmt.Errorf("fill shard %d: records for %d landed at %d: somebody else writes", f.shard, want, base)
		}
		batch, values = batch[:0], values[:0]
	}
	return nil
}
