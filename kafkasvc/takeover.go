package kafkasvc

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/record"
)

// tenureIDs draws the uuids of this process's tenures, so that any takeover in a log can be told to be its
// own or foreign, however old, without keeping a list: eight random bytes of the process, then a counter.
type tenureIDs struct {
	process [8]byte
	count   atomic.Uint64
}

func newTenureIDs() *tenureIDs {
	ids := &tenureIDs{}
	rand.Read(ids.process[:])
	ids.process[6] = ids.process[6]&0x0f | 0x80 // version 8: of our own making (RFC 9562 section 5.8)
	return ids
}

func (ids *tenureIDs) draw() uuid.UUID {
	var id uuid.UUID
	copy(id[:8], ids.process[:])
	binary.BigEndian.PutUint64(id[8:], ids.count.Add(1)|1<<63) // variant bits 10
	return id
}

func (ids *tenureIDs) mine(id uuid.UUID) bool { return [8]byte(id[:8]) == ids.process }

// takeOver appends the takeover record until the broker acknowledges it, and returns where that copy lies:
// the load target, and the version of the ownership. Earlier copies that landed without an
// answer mean nothing. It gives up only when ctx ends.
func takeOver(ctx context.Context, log partition, t *record.Takeover, wait waits, lg *slog.Logger) (domain.Offset, error) {
	rec := []kafkalog.Record{{Value: record.AppendTakeover(nil, t)}}
	for attempt := 0; ; attempt++ {
		actx, cancel := context.WithTimeout(ctx, wait.answer(attempt))
		at, err := log.Append(actx, rec)
		cancel()
		if err == nil {
			return at, nil
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if attempt == 0 || permanent(err) && attempt%16 == 0 {
			lg.Warn("takeover not acknowledged; trying again", "err", err)
		}
		if err := wait.backOff(ctx, attempt); err != nil {
			return 0, err
		}
	}
}

func permanent(err error) bool {
	var e *kafkalog.AppendError
	return errors.As(err, &e) && e.Permanent
}

func notWritten(err error) bool {
	var e *kafkalog.AppendError
	return errors.As(err, &e) && e.NotWritten
}

// waits says how long to wait for an answer and between attempts. Both grow with each attempt.
type waits struct {
	firstAnswer, lastAnswer   time.Duration
	firstBackOff, lastBackOff time.Duration
}

func defaultWaits() waits {
	return waits{
		firstAnswer: time.Second, lastAnswer: 15 * time.Second,
		firstBackOff: 20 * time.Millisecond, lastBackOff: time.Second,
	}
}

func doubled(first, last time.Duration, n int) time.Duration {
	if n > 16 {
		return last
	}
	return min(first<<n, last)
}

func (w waits) answer(attempt int) time.Duration {
	return doubled(w.firstAnswer, w.lastAnswer, attempt)
}

func (w waits) backOff(ctx context.Context, attempt int) error {
	return sleep(ctx, doubled(w.firstBackOff, w.lastBackOff, attempt))
}

// sleep waits for d or the end of ctx, whose cause it returns.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
