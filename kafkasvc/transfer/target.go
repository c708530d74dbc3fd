package transfer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/record"
)

// NotEmptyError: the home to fill holds something that this import did not write. Nothing was changed.
type NotEmptyError struct{ Shard int }

func (e *NotEmptyError) Error() string {
	return fmt.Sprintf("shard %d of this home holds messages or rooms that are not of this import: fill another one (--topic-prefix), or delete both topics first", e.Shard)
}

// ErrBusy: somebody else writes to the home that is being filled.
var ErrBusy = errors.New("an instance, or another import, writes to this home: stop it, and repeat the import. If it stored messages meanwhile, delete both topics first")

// contents is what a room is known to hold, as a chain of hashes: two rooms with the same last serial and the same
// chain hold the same.
type contents struct {
	last  domain.Serial
	chain uint64
}

func (c *contents) room(info *domain.ChatRoomInfo) {
	c.chain = record.Hash(record.AppendChatRoom(nil, 0, info))
}

func (c *contents) message(scratch []byte, m *domain.Message) []byte {
	scratch = binary.BigEndian.AppendUint64(scratch[:0], c.chain)
	scratch = record.AppendMessage(scratch, 0, m)
	c.last, c.chain = m.Serial, record.Hash(scratch)
	return scratch
}

// target is a shard to fill.
type target struct {
	*shardLog
	importer string    // the id under which it is filled, the same when the same file is imported again
	tenure   uuid.UUID // of this run
	next     domain.Offset
	there    map[uuid.UUID]*contents // what earlier runs of this import have written

	waiting []item
	bytes   int
}

// item is a room, or a message.
type item struct {
	info    domain.ChatRoomInfo
	message *domain.Message // nil: a room
}

func (i *item) record(at domain.Offset) kafkalog.Record {
	if i.message != nil {
		return kafkalog.Record{Key: record.Key(i.message.Room), Value: record.AppendMessage(nil, at, i.message)}
	}
	return kafkalog.Record{Key: record.Key(i.info.ID), Value: record.AppendChatRoom(nil, at, &i.info)}
}

// inspect reads what the shard holds. Only what was written under a takeover of this import may be there.
func (t *target) inspect(ctx context.Context) error {
	var v record.View
	var scratch []byte
	owner := ""
	return t.read(ctx, t.start, t.end, func(off domain.Offset, value []byte) error {
		if !counts(&v, off, value) {
			return nil
		}
		if v.Kind == record.KindTakeover {
			owner = string(v.Instance)
			return nil
		}
		if owner != t.importer {
			return &NotEmptyError{Shard: int(t.number)}
		}
		c := t.there[v.Room]
		if c == nil {
			c = &contents{}
			t.there[v.Room] = c
		}
		if v.Kind == record.KindChatRoomCreated {
			c.room(&domain.ChatRoomInfo{ID: v.Room, Name: string(v.Name), CreatedAt: v.Time})
			return nil
		}
		scratch = c.message(scratch, messageOf(&v))
		return nil
	})
}

// counts fills v.
func counts(v *record.View, off domain.Offset, value []byte) bool {
	return v.Decode(value) == nil && v.Counts(off)
}

func messageOf(v *record.View) *domain.Message {
	return &domain.Message{Room: v.Room, Serial: v.Serial, User: string(v.User), ClientID: string(v.ClientID), Text: string(v.Text), SentAt: v.Time}
}

// takeOver begins to write as a new owner does, so that late writes of anybody before are void.
func (t *target) takeOver(ctx context.Context) error {
	rec := []kafkalog.Record{{Value: record.AppendTakeover(nil, &record.Takeover{
		Instance: domain.Instance{ID: t.importer}, Tenure: t.tenure, Time: domain.MillisOf(time.Now()),
	})}}
	base, _, err := t.send(ctx, rec)
	if err != nil {
		return err
	}
	t.next = t.end
	if _, err := t.look(ctx, nil, base+1); err != nil {
		return err
	}
	t.next = base + 1
	return nil
}

const appendTimeout = 15 * time.Second

// send appends records, identically, until they are acknowledged.
func (t *target) send(ctx context.Context, records []kafkalog.Record) (base domain.Offset, copies int, err error) {
	var refused error
	err = again(ctx, t.lg, func() (err error) {
		actx, cancel := context.WithTimeout(ctx, appendTimeout)
		defer cancel()
		copies++
		base, err = t.cluster.Append(actx, t.topic, t.number, records)
		var e *kafkalog.AppendError
		if errors.As(err, &e) && e.Permanent {
			refused = err
			return nil
		}
		return err
	})
	if err = errors.Join(err, refused); err != nil {
		return 0, copies, fmt.Errorf("write to shard %d: %w", t.number, err)
	}
	return base, copies, nil
}

// add takes an item, and writes when a batch is full.
func (t *target) add(ctx context.Context, i item) error {
	size := kafkalog.RecordBytes(len(t.waiting), i.record(t.next+domain.Offset(len(t.waiting))))
	if t.bytes+size > kafkasvc.MaxBatchBytes-batchSlack || len(t.waiting) == batchRecords {
		if err := t.flush(ctx); err != nil {
			return err
		}
	}
	t.waiting, t.bytes = append(t.waiting, i), t.bytes+size
	return nil
}

const (
	batchRecords = 4000
	batchSlack   = 32 << 10 // a record written again names a larger offset, which may take more bytes
)

// flush returns when all that waits is stored.
func (t *target) flush(ctx context.Context) error {
	for len(t.waiting) > 0 {
		records := make([]kafkalog.Record, len(t.waiting))
		for i := range t.waiting {
			records[i] = t.waiting[i].record(t.next + domain.Offset(i))
		}
		base, _, err := t.send(ctx, records)
		if err != nil {
			return err
		}
		end := base + domain.Offset(len(records))
		left := t.waiting[:0]
		switch {
		case base < t.next:
			return fmt.Errorf("write to shard %d: its log was cut at %d: delete both topics, and repeat the import", t.number, base)
		case base > t.next: // a copy whose answer was lost has landed before, or something that is not ours
			stored, err := t.look(ctx, records, end)
			if err != nil {
				return err
			}
			for i, ok := range stored {
				if !ok {
					left = append(left, t.waiting[i])
				}
			}
		}
		t.next, t.waiting = end, left
	}
	t.bytes = 0
	return nil
}

// look reads [next, end) and says which records, which name the offsets from next on, are there. ErrBusy: somebody
// else has written what counts, or taken over.
func (t *target) look(ctx context.Context, records []kafkalog.Record, end domain.Offset) (stored []bool, err error) {
	stored = make([]bool, len(records))
	var v record.View
	return stored, t.read(ctx, t.next, end, func(off domain.Offset, value []byte) error {
		i := int(off - t.next)
		switch {
		case !counts(&v, off, value):
		case v.Kind == record.KindTakeover && v.Tenure == t.tenure:
		case v.Kind == record.KindTakeover, i >= len(records), !bytes.Equal(value, records[i].Value):
			return ErrBusy
		default:
			stored[i] = true
		}
		return nil
	})
}
