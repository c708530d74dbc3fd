//go:build kafka

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc"
)

func (in *instance) create(s domain.ShardID, name string) domain.ChatRoomInfo {
	in.t.Helper()
	id := uuid.New()
	for {
		if of, ok := in.ShardOf(id); ok && of == s {
			break
		}
		id = uuid.New()
	}
	var info domain.ChatRoomInfo
	eventually(in.t, 30*time.Second, "create room "+name, func() (err error) {
		info, _, err = in.CreateChatRoom(within(in.t, 10*time.Second), id, name)
		return err
	})
	return info
}

// sends sends until one of the instances has stored it.
func sends(t *testing.T, room domain.ChatRoomInfo, user, id, text string, ins ...*instance) domain.Message {
	t.Helper()
	var m domain.Message
	eventually(t, 60*time.Second, "send "+id, func() (err error) {
		for _, in := range ins {
			if m, _, err = send(in.house, room, user, id, text); err == nil {
				return nil
			}
		}
		return err
	})
	return m
}

// history is all messages of a room, as the owner among the instances has them.
func history(t *testing.T, room domain.ChatRoomInfo, ins ...*instance) (all []domain.Message) {
	t.Helper()
	eventually(t, 60*time.Second, "read room "+room.Name, func() error {
		var err error
		for _, in := range ins {
			if all, err = in.history(room); err == nil {
				return nil
			}
		}
		return err
	})
	return all
}

func (in *instance) history(room domain.ChatRoomInfo) (all []domain.Message, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	r, err := in.ChatRoom(ctx, room.Shard, room.ID)
	if err != nil {
		return nil, err
	}
	for after := domain.Serial(0); ; {
		p, err := r.Messages(ctx, domain.Range{After: after, Limit: 1000})
		if err != nil {
			return nil, err
		}
		all = append(all, p.Messages...)
		if !p.HasNext {
			return all, nil
		}
		after = all[len(all)-1].Serial
	}
}

// writer sends numbered messages to a room until it is told to end, each until it is stored.
type writer struct {
	t    *testing.T
	room domain.ChatRoomInfo
	ins  []*instance
	user string

	mu     sync.Mutex
	stored []domain.Message // in the order of the answers
	stop   context.CancelFunc
	done   chan struct{}
	gone   atomic.Bool // the room is no more: what is not stored yet never will be
}

func write(t *testing.T, room domain.ChatRoomInfo, user string, ins ...*instance) *writer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer{t: t, room: room, ins: ins, user: user, stop: cancel, done: make(chan struct{})}
	t.Cleanup(w.end)
	go func() {
		defer close(w.done)
		for i := 0; ctx.Err() == nil; i++ {
			// Also after the end: an attempt whose outcome is unknown has to be asked for again.
			for limit := time.Now().Add(2 * time.Minute); !w.once(i) && !w.gone.Load() && time.Now().Before(limit); {
				time.Sleep(20 * time.Millisecond)
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return w
}

func (w *writer) once(i int) bool {
	for _, in := range w.ins {
		m, _, err := send(in.house, w.room, w.user, fmt.Sprint(i), fmt.Sprint("text ", i))
		if err != nil {
			continue
		}
		w.mu.Lock()
		w.stored = append(w.stored, m)
		w.mu.Unlock()
		return true
	}
	return false
}

func (w *writer) end() {
	w.stop()
	<-w.done
}

func (w *writer) all() []domain.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.stored)
}

// goesOn waits until so many more are stored.
func (w *writer) goesOn(n int) {
	w.t.Helper()
	goal := len(w.all()) + n
	eventually(w.t, 60*time.Second, "writing goes on", func() error {
		if have := len(w.all()); have < goal {
			return fmt.Errorf("%d of %d messages are stored", have, goal)
		}
		return nil
	})
}

// whole: the room holds exactly what was answered, with those serials and times, without a gap.
func (w *writer) whole(ins ...*instance) {
	w.t.Helper()
	got := history(w.t, w.room, ins...)
	want := w.all()
	if !slices.Equal(got, want) {
		w.t.Errorf("room %s of %s: %d messages, answered were %d, or others", w.room.Name, w.user, len(got), len(want))
	}
	gapless(w.t, got, 1)
}

func gapless(t *testing.T, all []domain.Message, first domain.Serial) {
	t.Helper()
	for i, m := range all {
		if m.Serial != first+domain.Serial(i) {
			t.Fatalf("serial %d where %d should be", m.Serial, first+domain.Serial(i))
		}
	}
}

// agree: another instance, which has only the log, shows the same.
func agree(t *testing.T, in *instance, rooms ...domain.ChatRoomInfo) {
	t.Helper()
	want := map[uuid.UUID][]domain.Message{}
	for _, r := range rooms {
		want[r.ID] = history(t, r, in)
	}
	in.end()
	fresh := join(t, in.cluster, in.cfg.TopicPrefix, "fresh", func(c *kafkasvc.Config) { c.Shards = in.cfg.Shards }).ready()
	for _, r := range rooms {
		if got := history(t, r, fresh); !slices.Equal(got, want[r.ID]) {
			t.Errorf("room %s: an instance that has only the log shows %d messages, the other one %d, or others", r.Name, len(got), len(want[r.ID]))
		}
	}
	fresh.end()
}

// is says whether err is an E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
