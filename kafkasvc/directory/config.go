package directory

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// ErrOutOfRange is what a Reader answers when the log does not hold the offset: below its start or behind its end.
var ErrOutOfRange = errors.New("directory: offset out of range")

// Topic is the directory topic: one partition.
type Topic interface {
	// Ensure creates the topic where it is missing.
	Ensure(ctx context.Context) error
	// Append writes values as one record batch, acks=all, and never repeats by itself. ctx has a deadline.
	// On error they may have been written or not.
	Append(ctx context.Context, values [][]byte) (base domain.Offset, err error)
	// Bounds are the log's start and an estimate of its end.
	Bounds(ctx context.Context) (start, end domain.Offset, err error)
	// Reader reads by a connection of its own, dialled when needed.
	Reader() Reader
}

// Reader reads the topic. It is used by one goroutine at a time.
type Reader interface {
	// Read waits a bounded time for records at from or above and hands them to visit in order until that
	// answers false. A value is valid during visit only. nil without a visit: nothing there yet. After any
	// error but ErrOutOfRange the next Read connects anew.
	Read(ctx context.Context, from domain.Offset, visit func(off domain.Offset, value []byte) bool) error
	Close() error
}

// Life is one life of the topics: the first Home in the directory topic.
type Life struct {
	Home   uuid.UUID // zero: not known
	Shards int       // pinned for ever
}

// Hooks tell the house what happened. They are called without a lock held and must not wait for the directory.
type Hooks struct {
	// NewLife runs before anything of a life that the store does not hold is answered: at the first start
	// (old is zero), and when the topics were deleted and created again. It locks the gate and drops all
	// local data that were not built from life now. It is called again until it succeeds.
	NewLife func(ctx context.Context, old, now Life) error
	// Rebuilt: the topic lost records, so the view was dropped within the same life and is being read again from
	// the start. Owners announce their rooms again (AnnounceRooms).
	Rebuilt func()
	// OwnerChanged: Owner(shard) answers something else now.
	OwnerChanged func(shard domain.ShardID)
	// Alarm: somebody should look at this. Once per occurrence.
	Alarm func(Alarm)
}

// AlarmKind says what an Alarm is about.
type AlarmKind string

const (
	// AlarmShardWentBack: a takeover landed at or below the version that the directory knew before it: the
	// shard's partition was recreated or lost acknowledged records. Have: where it landed, Want: more than this.
	AlarmShardWentBack AlarmKind = "shard went back"
	// AlarmDirectoryDamaged: the directory topic lost acknowledged records.
	AlarmDirectoryDamaged AlarmKind = "directory damaged"
	// AlarmPartitions: the messages topic has Have partitions, the life has pinned Want. The pinned count stays.
	AlarmPartitions AlarmKind = "partition count"
)

// Alarm is something that the log or an administrator should not have done. Service goes on.
type Alarm struct {
	Kind       AlarmKind
	Shard      domain.ShardID // of AlarmShardWentBack
	Have, Want int64
}

// Config is what a Directory needs.
type Config struct {
	Topic    Topic
	Store    Store
	Shards   int             // shard count that this instance proposes where the topic is empty
	Instance domain.Instance // named in owner entries
	Hooks    Hooks           // each may be nil
	Log      *slog.Logger    // nil: discarded

	// Partitions counts the partitions of the messages topic; 0 or an error: not known now. May be nil.
	Partitions func(ctx context.Context) (int, error)

	// The defaults of all times apply where they are zero.
	RPCTimeout    time.Duration // for one append or question; 1 s
	LookupTimeout time.Duration // for reading to the present end, whatever the caller's context allows; 2 s
	CheckInterval time.Duration // between looks at the first record and the partition count; 5 s
	BackoffMin    time.Duration // 50 ms
	BackoffMax    time.Duration // 1 s

	// NewHome draws the id of a new life; nil: uuid.New.
	NewHome func() uuid.UUID
}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&c.RPCTimeout, time.Second)
	def(&c.LookupTimeout, 2*time.Second)
	def(&c.CheckInterval, 5*time.Second)
	def(&c.BackoffMin, 50*time.Millisecond)
	def(&c.BackoffMax, time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.NewHome == nil {
		c.NewHome = uuid.New
	}
	h := &c.Hooks
	if h.NewLife == nil {
		h.NewLife = func(context.Context, Life, Life) error { return nil }
	}
	if h.Rebuilt == nil {
		h.Rebuilt = func() {}
	}
	if h.OwnerChanged == nil {
		h.OwnerChanged = func(domain.ShardID) {}
	}
	if h.Alarm == nil {
		h.Alarm = func(Alarm) {}
	}
	return c
}
