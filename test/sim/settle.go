package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/test/check"
)

// Bounds of simulated time after the last fault.
const (
	opensWithin     = time.Minute     // all shards are open, each at one instance
	completesWithin = 2 * time.Minute // all writers have their answers, all subscribers all messages
)

// settle is what has to be true when nothing goes wrong any more: everything opens, completes, and agrees.
func (w *world) settle(e *era) {
	if !w.failed() {
		began := time.Now()
		for _, n := range w.nodes {
			n.restart(w)
		}
		w.latency.Store(0)
		if err := w.eventually(opensWithin, w.allOpen); err != nil {
			w.violated("stuck loading", "%v after the last fault: %v", opensWithin, err)
		}
		w.report.Opened = max(w.report.Opened, time.Since(began))
	}
	close(w.quiet)
	w.within(completesWithin, "writers wait for answers", &w.clients)
	ends := map[uuid.UUID]domain.Serial{}
	for _, room := range e.rooms {
		history := w.walk(e, room)
		if n := len(history); n > 0 {
			ends[room.ID] = history[n-1].Serial
		}
	}
	e.ends.Store(&ends)
	if w.failed() {
		e.lost.Store(true) // let everybody go
	}
	w.within(completesWithin, "subscribers wait for messages", &w.followers)
	w.directories(e)
	log, err := w.readLog()
	if err != nil {
		w.violated("the harness", "%v", err)
		return
	}
	if w.tail != nil {
		log = w.tail.all(log)
	}
	e.history.Log = log
	w.judge(e)
}

// within waits for a group of clients.
func (w *world) within(limit time.Duration, what string, group *sync.WaitGroup) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return
	case <-time.After(limit):
		w.violated("stuck", "%s %v after the end of all faults", what, limit)
		w.current().lost.Store(true)
		empty := map[uuid.UUID]domain.Serial{}
		w.current().ends.CompareAndSwap(nil, &empty)
		<-done
	}
}

// allOpen: every shard is open at exactly one instance, and every instance is ready.
func (w *world) allOpen() error {
	open := make([]int, w.cfg.Shards)
	var errs []error
	for _, n := range w.running() {
		l := n.life()
		for _, r := range l.home.Ready() {
			shard := "-"
			if r.Shard != nil {
				shard = fmt.Sprint(*r.Shard)
			}
			errs = append(errs, fmt.Errorf("%s: shard %s %s: %s", n.id, shard, r.State, r.Reason))
		}
		for _, s := range l.home.Shards() {
			if s.State == domain.ShardOpen {
				open[s.Shard]++
			}
		}
	}
	for s, n := range open {
		if n != 1 {
			errs = append(errs, fmt.Errorf("shard %d is open at %d instances", s, n))
		}
	}
	return errors.Join(errs...)
}

// walk reads a room's history from its start, page by page, at whoever owns it.
func (w *world) walk(e *era, room domain.ChatRoomInfo) (all []domain.Message) {
	err := w.eventually(30*time.Second, func() (err error) {
		for _, n := range w.nodes {
			all = nil
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			_, err = n.call(ctx, func(ctx context.Context, l *life) error {
				r, err := l.home.ChatRoom(ctx, room.Shard, room.ID)
				if err != nil {
					return err
				}
				for next := domain.Serial(0); ; {
					p, err := r.Messages(ctx, domain.Range{After: next, Limit: 173})
					if err != nil || len(p.Messages) == 0 {
						return err
					}
					all = append(all, p.Messages...)
					next = all[len(all)-1].Serial
					if !p.HasNext {
						return nil
					}
				}
			})
			cancel()
			if err == nil {
				return nil
			}
		}
		return err
	})
	if err != nil {
		w.violated("stuck", "nobody tells the history of %s: %v", room.Name, err)
		return nil
	}
	after := int64(0)
	if w.cfg.Mode == Deleting && len(all) > 0 {
		after = int64(all[0].Serial - 1)
	}
	s := e.history.Follow("history", room.ID, after)
	s.Complete = true
	for _, m := range all {
		s.Got(seen(m))
	}
	return all
}

// directories: every instance lists all rooms, in one and the same order.
func (w *world) directories(e *era) {
	w.mu.Lock()
	all := slices.Concat(e.rooms, e.created)
	w.mu.Unlock()
	lists := map[string][]string{}
	err := w.eventually(30*time.Second, func() error {
		lists = map[string][]string{}
		var errs []error
		for _, n := range w.running() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			var names []string
			_, err := n.call(ctx, func(ctx context.Context, l *life) error {
				rooms, _, err := l.home.Directory().ChatRooms(ctx, 0, 1000)
				for _, r := range rooms {
					names = append(names, r.Info.ID.String()+" "+r.Info.Name)
				}
				return err
			})
			lists[strings.Join(names, "\n")] = append(lists[strings.Join(names, "\n")], n.id)
			if err != nil {
				errs = append(errs, err)
			}
			for _, room := range all {
				if !slices.Contains(names, room.ID.String()+" "+room.Name) {
					errs = append(errs, fmt.Errorf("%s does not list %s", n.id, room.Name))
				}
			}
		}
		if len(lists) > 1 {
			errs = append(errs, fmt.Errorf("%d different lists of rooms", len(lists)))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		w.violated("the room list", "%v", err)
	}
}

// judge compares the four views.
func (w *world) judge(e *era) {
	v := check.Check(e.history)
	w.report.add(e, v)
	for _, x := range v.Violations {
		w.violated(string(x.Property), "room %s: %s", x.Room, x.Text)
	}
	w.verdicts = append(w.verdicts, v)
}
