package kafkasvc

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/failpoint"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

// keeper is the life of one shard in one generation:
//
//	take over → load → serve
//	    ↑                │ fenced, truncated, store failed, refused: lock, look, and
//	    └────────────────┘
//
// It ends when the generation does.
type keeper struct {
	gate       *gate
	generation *generation
	shard      *shard
	home       keeperHome
	budget     *budget
	wait       waits
	now        func() time.Time
	lg         *slog.Logger

	tenure    atomic.Pointer[tenure]
	confirmed atomic.Int64 // next offset, 0 until loaded
	done      chan struct{}
}

// keeperHome is what a keeper needs of the house around it.
type keeperHome interface {
	Instance() domain.Instance
	// claim is asked for before the takeover, and given back when the tenure serves: the announcement of
	// the owner, and of rooms that the directory lacks, until ctx ends.
	claim(s *shard) announcement
	// roomsOf finds rooms in the local data.
	roomsOf(*local.Shard) func(uuid.UUID) (domain.ChatRoom, bool, error)
	// alarm counts what a person has to look at.
	alarm(kind string)
}

// announcement makes known who owns a shard since version. rooms: the log that was loaded created some.
type announcement func(ctx context.Context, version domain.Offset, rooms bool)

// minTenure is how long a tenure must have lasted for the next one to start without a pause.
const minTenure = 5 * time.Second

// run ends within the drain after stop: a batch that is out then may finish; nothing else is started.
func (k *keeper) run(stop context.Context) {
	defer close(k.done)
	failures := 0
	for stop.Err() == nil {
		began := k.now()
		err := k.serve(stop)
		if stop.Err() != nil {
			return
		}
		if k.now().Sub(began) > minTenure {
			failures = 0
		}
		p := place{phase: phaseLocked, reason: "taking over again"}
		switch {
		case errors.Is(err, errFenced):
			k.shard.counts.fences.Add(1)
			p.reason = "another instance took over; asking the group who the owner is"
		case errors.Is(err, errCut):
			p = place{phase: phaseAlarmed, reason: "the log was truncated or replaced; loading it anew"}
			k.home.alarm(alarmTruncated)
		case errors.Is(err, errHole):
			p = place{phase: phaseAlarmed, reason: "the log has a hole that nothing explains"}
			k.home.alarm(alarmHole)
		case errors.Is(err, errStore):
			p = place{phase: phaseAlarmed, reason: "the local store failed"}
			k.home.alarm(alarmStore)
		case errors.Is(err, errRefused):
			p = place{phase: phaseAlarmed, reason: "the broker refuses to store"}
			k.home.alarm(alarmRefused)
		}
		k.gate.place(k.generation, k.shard.id, p)
		level := slog.LevelWarn
		if p.phase == phaseAlarmed {
			level = slog.LevelError
		}
		k.lg.Log(stop, level, "shard locked", "reason", p.reason, "err", err)
		if errors.Is(err, errFenced) {
			// Only while the generation lives may an instance take over, else two instances duel.
			if err := k.generation.lease.Confirm(stop); err != nil {
				k.lg.Info("the generation is over: not the owner any more")
				return
			}
		}
		if errors.Is(err, errCut) || errors.Is(err, errStore) {
			if err := k.drop(); err != nil {
				k.lg.Error("cannot drop local data", "err", err)
			}
		}
		if k.wait.backOff(stop, failures) != nil {
			return
		}
		failures++
	}
}

func (k *keeper) drop() error {
	k.shard.mu.Lock()
	defer k.shard.mu.Unlock()
	return k.shard.store().Drop()
}

// serve is one tenure.
func (k *keeper) serve(stop context.Context) error {
	t := &tenure{
		id: k.shard.ids.draw(), generation: k.generation, shard: k.shard, gate: k.gate,
		queue: newQueue(queueCommands, queueBytes),
	}
	stop, t.cancel = context.WithCancelCause(stop)
	defer t.cancel(nil)
	k.shard.begin(t)
	k.tenure.Store(t)

	k.shard.counts.tenures.Add(1)
	started, announce := k.now(), k.home.claim(k.shard)
	version, err := takeOver(stop, k.shard.log, &record.Takeover{
		Instance: k.home.Instance(), Tenure: t.id, Time: domain.MillisOf(k.now()),
	}, k.wait, k.lg)
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.AfterTakeover, k.gate.self)
	t.target.Store(int64(version))
	k.gate.place(k.generation, k.shard.id, place{phase: phaseLoading, tenure: t})
	l := &loader{tenure: t, budget: k.budget, wait: k.wait, lg: k.lg, alarm: k.home.alarm}
	fold, err := l.load(stop, version)
	if err != nil {
		return err
	}
	failpoint.Hit(failpoint.AfterLoading, k.gate.self)
	t.rooms = newRooms(k.home.roomsOf(t.store), t.holds)
	at := fold.Position()
	k.confirmed.Store(int64(at.Next))
	w := &writer{
		tenure: t, fold: fold, known: last{at.Next, at.Hash}, now: k.now, wait: k.wait, lg: k.lg,
		maxBytes: MaxBatchBytes, confirmed: &k.confirmed,
	}
	t.inFlight = &w.inFlight
	k.gate.place(k.generation, k.shard.id, place{phase: phaseLoaded, tenure: t})
	took := k.now().Sub(started)
	k.shard.counts.loads.observe(loadBounds(), int64(took))
	k.lg.Info("shard loaded", "version", int64(version), "took", took.Round(time.Millisecond))

	go announce(stop, version, l.rooms)
	defer context.AfterFunc(stop, t.refuseWaiting)()
	err = w.run(stop)
	t.lock("the tenure ended") // before what waits is answered
	t.refuseWaiting()
	return err
}

// Bounds of a shard's queue: what one shard may hold of commands that wait.
const (
	queueCommands = 16_384
	queueBytes    = 16 << 20
)

// refuseWaiting closes the queue and answers what is in it: not stored, except for who asks for the very
// record that is in flight; those share its end.
func (t *tenure) refuseWaiting() {
	for _, c := range t.queue.refuse(true) {
		if b := t.inFlight.Load(); b == nil || !b.share(c) {
			c.answer(result{err: errNotStored})
		}
	}
}

func newKeeper(g *gate, gen *generation, s *shard, home keeperHome, b *budget, w waits, now func() time.Time, lg *slog.Logger) *keeper {
	return &keeper{
		gate: g, generation: gen, shard: s, home: home, budget: b, wait: w, now: now,
		lg: lg.With("shard", int(s.id), "generation", int(gen.id)), done: make(chan struct{}),
	}
}
