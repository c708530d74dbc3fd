package kafkasvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/failpoint"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/membership"
)

// Home is the ChatHome over Kafka. It implements domain.ChatHome.
type Home struct {
	cfg     Config
	lg      *slog.Logger
	cluster *kafkalog.Cluster
	store   *local.Store
	dir     *directory.Directory
	gate    *gate
	ids     *tenureIDs
	budget  *budget
	status  atomic.Pointer[string] // what start-up waits for; nil once it is through

	life   lifeLock
	shards atomic.Pointer[[]*shard] // by number; nil until the count is known

	mu      sync.Mutex
	tenancy *tenancy // the present generation's keepers; nil between generations

	counts     counters
	group      atomic.Pointer[membership.Membership] // nil until Run joins
	fewBrokers sync.Once
}

// New opens the local store and returns a home that is locked. Run opens it.
func New(cfg Config) (*Home, error) {
	cfg.setDefaults()
	if err := cfg.Timeouts.Validate(); err != nil {
		return nil, err
	}
	store, err := local.Open(local.Config{Dir: cfg.DataDir, FS: cfg.StoreFS, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("open the local store: %w", err)
	}
	if cfg.InstanceID == "" {
		cfg.InstanceID = store.InstanceID()
	}
	h := &Home{cfg: cfg, lg: cfg.Log, store: store, ids: newTenureIDs(), budget: &budget{bytes: cfg.LoadBudget}}
	h.cluster = newCluster(&cfg)
	h.dir, err = h.openDirectory()
	if errors.Is(err, local.ErrFault) { // it is a cache: without it the start takes longer, that is all
		h.lg.Warn("local data cannot be read; they are dropped and built from the log again", "err", err)
		if err = store.DropAll(); err == nil {
			h.dir, err = h.openDirectory()
		}
	}
	if err != nil {
		h.cluster.Close()
		return nil, errors.Join(err, store.Close())
	}
	h.gate = newGate(cfg.Gate, cfg.instance(), h.dir.Owner)
	h.waitFor("starting")
	return h, nil
}

func newCluster(cfg *Config) *kafkalog.Cluster {
	return kafkalog.New(kafkalog.Config{
		Brokers: cfg.Brokers, Dial: cfg.Dial, TLS: cfg.TLS, SASL: cfg.SASL,
		ClientID: "chathome-" + cfg.InstanceID, RPCTimeout: cfg.Timeouts.RPC, Log: cfg.Log,
	})
}

// openDirectory reads what the local store has of the directory.
func (h *Home) openDirectory() (*directory.Directory, error) {
	return directory.New(directory.Config{
		Topic: directoryLog{h}, Store: newDirectoryStore(h.store), Shards: h.cfg.Shards, Instance: h.cfg.instance(), Log: h.lg,
		Partitions: h.countPartitions,
		Hooks: directory.Hooks{
			NewLife:      h.newLife,
			Rebuilt:      h.announceAgain,
			OwnerChanged: func(domain.ShardID) { h.gate.touch() },
			Alarm:        h.directoryAlarm,
		},
	})
}

// Close releases what New opened. Call it after Run has returned.
func (h *Home) Close() error {
	h.cluster.Close()
	return h.store.Close()
}

func (h *Home) waitFor(what string) { h.status.Store(&what) }

// ChatRoom implements domain.ChatHome: the gate.
func (h *Home) ChatRoom(_ context.Context, s domain.ShardID, id uuid.UUID) (domain.Room, error) {
	t, err := h.gate.enter(s)
	if err != nil {
		return nil, err
	}
	state, ok, err := t.rooms.state(id)
	if no := h.gate.holds(t); no != nil {
		return nil, no
	}
	if busy, ok := errors.AsType[*domain.OverloadedError](err); ok {
		return nil, busy // the name was lost, and the directory is being read
	}
	if err != nil {
		return nil, t.breakDown(err)
	}
	if !ok {
		return nil, &domain.UnknownChatRoomError{ID: id}
	}
	return &room{home: h, tenure: t, state: state}, nil
}

// CreateChatRoom implements domain.ChatHome.
func (h *Home) CreateChatRoom(ctx context.Context, id uuid.UUID, name string) (domain.ChatRoomInfo, bool, error) {
	if err := domain.ValidateRoomName(name); err != nil {
		return domain.ChatRoomInfo{}, false, err
	}
	ctx, cancel := h.bounded(ctx)
	defer cancel()
	s, _ := h.ShardOf(id)
	t, err := h.gate.enter(s)
	if err != nil {
		return domain.ChatRoomInfo{}, false, err
	}
	c := newCommand(id)
	c.create, c.name = true, name
	r := t.submit(ctx, c)
	if r.err != nil {
		return domain.ChatRoomInfo{}, false, r.err
	}
	failpoint.Hit(failpoint.BeforeAnnounce, h.gate.self)
	err = h.dir.Announce(ctx, r.info)
	failpoint.Hit(failpoint.AfterAnnounce, h.gate.self)
	if err != nil {
		h.announceLater(s) // it is stored: others must hear of it, whoever waits here
		return domain.ChatRoomInfo{}, false, &domain.OutcomeUnknownError{Shard: s}
	}
	return r.info, r.duplicate, nil
}

// bounded gives a write a deadline where the caller set none.
func (h *Home) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, h.cfg.RequestTimeout)
}

// DrawChatRoomID implements domain.ChatHome.
func (h *Home) DrawChatRoomID() uuid.UUID {
	for {
		id := uuid.New()
		if s, ok := h.ShardOf(id); !ok || h.gate.refusal(s) == nil || !h.anyOpen() {
			return id
		}
	}
}

func (h *Home) anyOpen() bool {
	return slices.ContainsFunc(h.all(), func(s *shard) bool { return h.gate.refusal(s.id) == nil })
}

// ShardOf implements domain.ChatHome.
func (h *Home) ShardOf(id uuid.UUID) (domain.ShardID, bool) {
	n := h.dir.ShardCount()
	if n == 0 {
		return 0, false
	}
	return domain.ShardOf(id, n), true
}

// Shards implements domain.ChatHome.
func (h *Home) Shards() []domain.ShardStatus {
	list := make([]domain.ShardStatus, h.dir.ShardCount())
	for i := range list {
		list[i] = domain.ShardStatus{Shard: domain.ShardID(i), State: domain.ShardOpen}
		if no := h.gate.refusal(domain.ShardID(i)); no != nil {
			list[i].State, list[i].NotOwned = no.State, no
		}
	}
	return list
}

// ShardsFeed implements domain.ChatHome.
func (h *Home) ShardsFeed() domain.Feed { return h.gate.changed }

// Directory implements domain.ChatHome.
func (h *Home) Directory() domain.Directory { return &roomList{h.dir, h} }

// Instance implements domain.ChatHome.
func (h *Home) Instance() domain.Instance { return h.cfg.instance() }

// Home implements domain.ChatHome.
func (h *Home) Home() uuid.UUID { return h.dir.Home() }

// Ready is empty when this instance serves what is assigned to it, also when that is nothing; otherwise it
// lists what is missing.
func (h *Home) Ready() []Reason {
	var rs []Reason
	if what := h.status.Load(); what != nil {
		rs = append(rs, Reason{State: domain.ShardLocked.String(), Reason: *what})
	} else {
		rs = h.gate.reasons()
	}
	if err := h.dir.Ready(); err != nil {
		rs = append(rs, Reason{State: "DIRECTORY", Reason: err.Error()})
	}
	return rs
}

func (h *Home) all() []*shard {
	if p := h.shards.Load(); p != nil {
		return *p
	}
	return nil
}

// roomList is the directory, except that an open owner also answers from its shard.
type roomList struct {
	*directory.Directory
	home *Home
}

// ChatRoom implements domain.Directory.
func (l *roomList) ChatRoom(ctx context.Context, id uuid.UUID) (domain.ChatRoomInfo, error) {
	if info, ok := l.Listed(id); ok {
		return info, nil
	}
	if s, ok := l.home.ShardOf(id); ok {
		if r, err := l.home.ChatRoom(ctx, s, id); err == nil {
			return r.Info(), nil
		}
	}
	return l.Directory.ChatRoom(ctx, id)
}

var (
	_ domain.ChatHome  = (*Home)(nil)
	_ domain.Directory = (*roomList)(nil)
)

const progressInterval = 250 * time.Millisecond
