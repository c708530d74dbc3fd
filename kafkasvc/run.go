package kafkasvc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/membership"
)

// Run serves until ctx ends: it waits for Kafka, finds or makes the topics, joins the group, and leaves it in
// the end. Faults of Kafka are waited out; an error is final: *RefusedError, or another life of the topics with
// another number of shards.
func (h *Home) Run(ctx context.Context) error {
	if err := h.meet(ctx); err != nil {
		return err
	}
	follow, unfollow := context.WithCancel(context.WithoutCancel(ctx))
	defer unfollow()
	following := make(chan error, 1)
	go func() { following <- h.dir.Run(follow) }()
	watched := make(chan struct{})
	go func() { defer close(watched); _ = h.watchStore(follow) }() // the directory may find the first fault

	err := h.serve(ctx)
	h.waitFor("stopping")
	h.gate.lock()
	unfollow() // last: rooms are announced until the group is left
	<-watched
	if derr := <-following; derr != nil {
		err = errors.Join(err, fmt.Errorf("follow the directory: %w", derr))
	}
	return err
}

func (h *Home) serve(ctx context.Context) error {
	h.waitFor("waiting for the directory topic")
	life, err := h.dir.WaitLife(ctx)
	if err != nil {
		return stopped(ctx, fmt.Errorf("find the life of the topics: %w", err))
	}
	h.waitFor("checking the topics")
	if err := h.prepare(ctx, life.Shards); err != nil {
		return stopped(ctx, err)
	}
	h.makeShards(life.Shards)
	group, err := membership.New(membership.Config{
		Brokers: h.cfg.Brokers, Dial: h.cfg.Dial, TLS: h.cfg.TLS, SASL: h.cfg.SASL,
		ClientID: "chathome-" + h.cfg.InstanceID,
		Group:    h.cfg.GroupID, Topic: messagesTopic(h.cfg.TopicPrefix), Shards: life.Shards,
		Instance: h.cfg.InstanceID, Held: h.held,
		Timeouts: h.cfg.Timeouts, Clock: h.cfg.Clock, Coordinator: h.cluster, Log: h.lg,
		Alarm: h.groupAlarm,
	}, h)
	if err != nil {
		return err
	}
	h.group.Store(group)
	h.status.Store(nil)
	tasks, ctx := errgroup.WithContext(ctx)
	tasks.Go(func() error { return group.Run(ctx) })
	tasks.Go(func() error { return h.tick(ctx) })
	tasks.Go(func() error { return h.watchLife(ctx, life) })
	return stopped(ctx, tasks.Wait())
}

// stopped is nil where err only says that ctx has ended.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		return nil
	}
	return err
}

func (h *Home) makeShards(n int) {
	shards := make([]*shard, n)
	for i := range shards {
		id := domain.ShardID(i)
		shards[i] = &shard{
			id: id, ids: h.ids, announce: make(chan struct{}, 1),
			log:   shardLog{h.cluster, messagesTopic(h.cfg.TopicPrefix), int32(i)},
			store: func() *local.Shard { return h.store.Shard(id) },
		}
	}
	h.shards.Store(&shards)
}

// held is the hint that keeps shards where they are.
func (h *Home) held(s domain.ShardID) (string, bool) {
	o := h.dir.Owner(s)
	if o == nil {
		return "", false
	}
	return o.Instance.ID, true
}

// roomsOf implements keeperHome. A room whose creation the log lost has its name from the directory; it is refused with
// OverloadedError until the directory is sure, because what is found here stays for the whole tenure.
func (h *Home) roomsOf(store *local.Shard) func(uuid.UUID) (domain.ChatRoom, bool, error) {
	since := time.Now()
	return func(id uuid.UUID) (domain.ChatRoom, bool, error) {
		r, ok, err := store.Room(id)
		if err != nil || !ok || r.Info.Name != "" {
			return r, ok, err
		}
		info, known, err := h.dir.Named(id, since)
		if err != nil {
			return domain.ChatRoom{}, false, err
		}
		if known {
			r.Info.Name, r.Info.CreatedAt = info.Name, info.CreatedAt
		}
		return r, true, nil
	}
}

// tick shows progress while loading, and commits the group's offsets.
func (h *Home) tick(ctx context.Context) error {
	progress, commit := time.NewTicker(progressInterval), time.NewTicker(h.cfg.CommitInterval)
	defer progress.Stop()
	defer commit.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-progress.C:
			if h.budget.active.Load() > 0 {
				h.gate.touch()
			}
		case <-commit.C:
			h.mu.Lock()
			t := h.tenancy
			h.mu.Unlock()
			if t != nil {
				cctx, cancel := context.WithTimeout(ctx, h.cfg.Timeouts.RPC)
				h.commitOffsets(cctx, t)
				cancel()
			}
		}
	}
}

// watchLife lets keepers start, and start again after another life has begun with the same number of shards.
func (h *Home) watchLife(ctx context.Context, first directory.Life) error {
	prepared := first.Home // by serve
	for {
		life, err := h.dir.WaitLife(ctx)
		if err != nil {
			return err
		}
		if life.Shards != first.Shards {
			return fmt.Errorf("the topics were deleted and created again with %d shards instead of %d: start this instance anew", life.Shards, first.Shards)
		}
		if life.Home != prepared {
			if err := h.prepare(ctx, life.Shards); err != nil {
				return err
			}
		}
		prepared = uuid.Nil // whatever comes next, look at it
		h.status.Store(nil) // an attempt that failed has left its reason
		h.life.set(true)
		if err := h.life.waitEnd(ctx); err != nil {
			return err
		}
	}
}
