package domaintest

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// Open gives the shard a new tenure here: whatever tenure there was, here or elsewhere, ends.
func (h *Home) Open(id domain.ShardID) {
	h.w.mu.Lock()
	wake := []func(){}
	for _, o := range h.w.homes {
		state := domain.ShardNotAssigned
		if o == h {
			state = domain.ShardLocked
		}
		wake = append(wake, o.change(id, state, domain.Progress{})...)
	}
	h.w.version++
	h.w.owners[id] = &domain.Owner{Instance: h.instance, Version: h.w.version}
	h.shards[id].state = domain.ShardOpen
	h.shards[id].tenure = &tenure{h: h, shard: id, feeds: map[uuid.UUID]*feed{}}
	h.w.mu.Unlock()
	run(wake)
}

// OpenAll opens every shard here.
func (h *Home) OpenAll() {
	for id := range h.shards {
		h.Open(domain.ShardID(id))
	}
}

// Lock ends the tenure of a shard: LOCKED.
func (h *Home) Lock(id domain.ShardID) { h.Set(id, domain.ShardLocked, domain.Progress{}) }

// LockAll locks every shard here, as the start of a rebalance does.
func (h *Home) LockAll() {
	for id := range h.shards {
		h.Lock(domain.ShardID(id))
	}
}

// Load ends the tenure of a shard, or moves its progress: LOADING.
func (h *Home) Load(id domain.ShardID, loaded, target domain.Offset) {
	h.Set(id, domain.ShardLoading, domain.Progress{Loaded: loaded, Target: target})
}

// Release ends the tenure of a shard: NOT_ASSIGNED.
func (h *Home) Release(id domain.ShardID) { h.Set(id, domain.ShardNotAssigned, domain.Progress{}) }

// Move gives the shard to another instance of the house.
func (h *Home) Move(id domain.ShardID, to *Home) { to.Open(id) }

// Set puts a shard into any state but OPEN.
func (h *Home) Set(id domain.ShardID, state domain.ShardState, p domain.Progress) {
	if state == domain.ShardOpen {
		panic("domaintest: use Open")
	}
	h.w.mu.Lock()
	wake := h.change(id, state, p)
	h.w.mu.Unlock()
	run(wake)
}

// change returns whom to wake after w.mu is free.
func (h *Home) change(id domain.ShardID, state domain.ShardState, p domain.Progress) (wake []func()) {
	s := h.shards[id]
	s.state, s.progress = state, p
	if t := s.tenure; t != nil {
		s.tenure = nil
		t.ended.CompareAndSwap(nil, h.notOwned(id))
		for _, f := range t.feeds {
			wake = append(wake, f.wake)
		}
	}
	h.shardsFeed.set(h.shardsFeed.Tip() + 1)
	return append(wake, h.shardsFeed.wake)
}

// Lapse lets the lease of a shard run out as a paused process sees it: everything answers ShardNotOwned, and
// feeds have ended, but nobody is woken.
func (h *Home) Lapse(id domain.ShardID) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	if t := h.shards[id].tenure; t != nil {
		t.ended.CompareAndSwap(nil, h.notOwned(id))
	}
}

// SetOwner says who the directory takes for the owner of a shard; nil: unknown.
func (h *Home) SetOwner(id domain.ShardID, o *domain.Owner) {
	h.w.mu.Lock()
	h.w.owners[id] = o
	h.shardsFeed.set(h.shardsFeed.Tip() + 1)
	h.w.mu.Unlock()
	h.shardsFeed.wake()
}

// SetHome makes every cursor that was given out one of another life of the topics.
func (h *Home) SetHome(id uuid.UUID) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.home = id
}

// AddRoom creates a room on a shard that is open here.
func (h *Home) AddRoom(name string) domain.ChatRoomInfo {
	info, _, err := h.CreateChatRoom(context.Background(), h.DrawChatRoomID(), name)
	if err != nil {
		panic(fmt.Errorf("domaintest: add a room: %w", err))
	}
	return info
}

// AddRoomOn creates a room on this shard, which must be open here.
func (h *Home) AddRoomOn(id domain.ShardID, name string) domain.ChatRoomInfo {
	for {
		room := uuid.New()
		if s, _ := h.ShardOf(room); s != id {
			continue
		}
		info, _, err := h.CreateChatRoom(context.Background(), room, name)
		if err != nil {
			panic(fmt.Errorf("domaintest: add a room: %w", err))
		}
		return info
	}
}

// Post stores drafts as one group commit: the feed advances once. Duplicates are answered as Send would.
func (h *Home) Post(id uuid.UUID, drafts ...domain.Draft) []domain.Message {
	s, _ := h.ShardOf(id)
	x, err := h.ChatRoom(context.Background(), s, id)
	if err != nil {
		panic(fmt.Errorf("domaintest: post: %w", err))
	}
	list, _, err := x.(*handle).add(drafts)
	if err != nil {
		panic(fmt.Errorf("domaintest: post: %w", err))
	}
	return list
}

// PostN posts n messages "text 1" … "text n" as one group commit, continuing the numbers of the room.
func (h *Home) PostN(id uuid.UUID, n int) []domain.Message {
	h.w.mu.Lock()
	last := h.w.rooms[id].state.Last
	h.w.mu.Unlock()
	drafts := make([]domain.Draft, n)
	for i := range drafts {
		k := int64(last) + int64(i) + 1
		drafts[i] = domain.Draft{User: "alice", ClientID: fmt.Sprint("c", k), Text: fmt.Sprint("text ", k)}
	}
	return h.Post(id, drafts...)
}

// DeleteBefore drops the history below serial, as DeleteRecords of an administrator does. Handles and feeds
// go on; the real home shows it at the next assignment.
func (h *Home) DeleteBefore(id uuid.UUID, serial domain.Serial) {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.rooms[id].deleteBefore(serial)
}

func run(list []func()) {
	for _, f := range list {
		f()
	}
}
