package domaintest

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// Config of a home in memory. The zero value is usable: 4 shards, all open, the real clock.
type Config struct {
	Shards     int
	Instance   domain.Instance
	Home       uuid.UUID
	Now        func() time.Time
	RetryAfter time.Duration // told with ShardNotOwned; 200 ms if zero
	Closed     bool          // shards start LOCKED instead of OPEN
}

// Home is a domain.ChatHome in memory. It is safe for concurrent use.
type Home struct {
	w          *world
	instance   domain.Instance
	shards     []*shard // under w.mu
	shardsFeed *feed
	faults     []*Fault // under w.mu
}

// world is what the instances of one house share: the log and the directory.
type world struct {
	mu         sync.Mutex
	home       uuid.UUID
	now        func() time.Time
	retryAfter time.Duration
	rooms      map[uuid.UUID]*room
	list       []*room // in order of announcement
	listFeed   *feed
	owners     []*domain.Owner
	version    domain.Offset
	homes      []*Home
}

// shard is a shard as one instance sees it.
type shard struct {
	state    domain.ShardState
	tenure   *tenure // nil unless open
	progress domain.Progress
}

// New returns a home of its own.
func New(cfg Config) *Home {
	if cfg.Shards == 0 {
		cfg.Shards = 4
	}
	if cfg.Instance.ID == "" {
		cfg.Instance = domain.Instance{ID: "memory", URL: "http://memory.example"}
	}
	if cfg.Home == (uuid.UUID{}) {
		cfg.Home = uuid.New()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.RetryAfter == 0 {
		cfg.RetryAfter = 200 * time.Millisecond
	}
	w := &world{
		home:       cfg.Home,
		now:        cfg.Now,
		retryAfter: cfg.RetryAfter,
		rooms:      map[uuid.UUID]*room{},
		listFeed:   newFeed(0, nil),
		owners:     make([]*domain.Owner, cfg.Shards),
	}
	h := w.join(cfg.Instance, domain.ShardLocked)
	if !cfg.Closed {
		for s := range cfg.Shards {
			h.Open(domain.ShardID(s))
		}
	}
	return h
}

// Join adds an instance to the house of h. Nothing is assigned to it: see Move and Open.
func (h *Home) Join(i domain.Instance) *Home {
	return h.w.join(i, domain.ShardNotAssigned)
}

func (w *world) join(i domain.Instance, state domain.ShardState) *Home {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &Home{w: w, instance: i, shards: make([]*shard, len(w.owners)), shardsFeed: newFeed(1, nil)}
	for s := range h.shards {
		h.shards[s] = &shard{state: state}
	}
	w.homes = append(w.homes, h)
	return h
}

var _ domain.ChatHome = (*Home)(nil)

// ChatRoom is the gate.
func (h *Home) ChatRoom(ctx context.Context, id domain.ShardID, roomID uuid.UUID) (domain.Room, error) {
	if err := h.fault(ctx, OpChatRoom); err != nil {
		return nil, err.Err
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	t, err := h.gate(id)
	if err != nil {
		return nil, err
	}
	r := h.w.rooms[roomID]
	if r == nil || r.state.Info.Shard != id {
		return nil, &domain.UnknownChatRoomError{ID: roomID}
	}
	return t.handle(r), nil
}

// CreateChatRoom passes the gate too.
func (h *Home) CreateChatRoom(ctx context.Context, id uuid.UUID, name string) (domain.ChatRoomInfo, bool, error) {
	if err := domain.ValidateRoomName(name); err != nil {
		return domain.ChatRoomInfo{}, false, err
	}
	f := h.fault(ctx, OpCreateChatRoom)
	if f != nil && !f.Written {
		return domain.ChatRoomInfo{}, false, f.Err
	}
	info, duplicate, err := h.w.create(h, id, name)
	if f != nil {
		return domain.ChatRoomInfo{}, false, f.Err
	}
	return info, duplicate, err
}

func (w *world) create(h *Home, id uuid.UUID, name string) (info domain.ChatRoomInfo, duplicate bool, err error) {
	defer func() {
		if err == nil && !duplicate {
			w.listFeed.wake()
		}
	}()
	w.mu.Lock()
	defer w.mu.Unlock()
	s := domain.ShardOf(id, len(w.owners))
	if _, err := h.gate(s); err != nil {
		return domain.ChatRoomInfo{}, false, err
	}
	var existing *domain.ChatRoomInfo
	if r := w.rooms[id]; r != nil {
		existing = &r.state.Info
	}
	info, duplicate, err = domain.CreateChatRoom(id, name, s, existing, domain.MillisOf(w.now()))
	if err != nil || duplicate {
		return info, duplicate, err
	}
	r := newRoom(info, domain.Serial(len(w.list)+1))
	w.rooms[id] = r
	w.list = append(w.list, r)
	w.listFeed.set(r.listed)
	return info, false, nil
}

// gate returns the tenure, or a *domain.ShardNotOwnedError. Called with w.mu held.
func (h *Home) gate(id domain.ShardID) (*tenure, error) {
	if id < 0 || int(id) >= len(h.shards) {
		return nil, &domain.ShardNotOwnedError{Shard: id, State: domain.ShardNotAssigned, Instance: h.instance, RetryAfter: h.w.retryAfter}
	}
	if s := h.shards[id]; s.tenure == nil || s.tenure.ended.Load() != nil {
		return nil, h.notOwned(id)
	}
	return h.shards[id].tenure, nil
}

// notOwned is what a request for a shard that is not open gets. Called with w.mu held.
func (h *Home) notOwned(id domain.ShardID) *domain.ShardNotOwnedError {
	s := h.shards[id]
	e := &domain.ShardNotOwnedError{
		Shard:      id,
		State:      s.state,
		Instance:   h.instance,
		Owner:      h.w.owners[id],
		RetryAfter: h.w.retryAfter,
	}
	switch s.state {
	case domain.ShardLoading:
		p := s.progress
		e.Progress = &p
	case domain.ShardOpen: // the lease lapsed
		e.State = domain.ShardLocked
	}
	return e
}

// DrawChatRoomID draws an id whose shard is open here, or any where none is.
func (h *Home) DrawChatRoomID() uuid.UUID {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	open := false
	for s := range h.shards {
		_, err := h.gate(domain.ShardID(s))
		open = open || err == nil
	}
	for {
		id := uuid.New()
		if _, err := h.gate(domain.ShardOf(id, len(h.shards))); err == nil || !open {
			return id
		}
	}
}

// ShardOf is the shard of a room.
func (h *Home) ShardOf(id uuid.UUID) (domain.ShardID, bool) {
	return domain.ShardOf(id, len(h.shards)), true
}

// Shards lists every shard as this instance sees it.
func (h *Home) Shards() []domain.ShardStatus {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	list := make([]domain.ShardStatus, len(h.shards))
	for i, s := range h.shards {
		id := domain.ShardID(i)
		list[i] = domain.ShardStatus{Shard: id, State: s.state}
		if _, err := h.gate(id); err != nil {
			list[i].NotOwned = h.notOwned(id)
			list[i].State = list[i].NotOwned.State
		}
	}
	return list
}

// ShardsFeed advances with every switch.
func (h *Home) ShardsFeed() domain.Feed { return h.shardsFeed }

// Directory answers on every instance.
func (h *Home) Directory() domain.Directory { return directory{h} }

// Instance is this process.
func (h *Home) Instance() domain.Instance { return h.instance }

// Home is the id of this life of the topics.
func (h *Home) Home() uuid.UUID {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	return h.w.home
}
