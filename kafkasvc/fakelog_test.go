package kafkasvc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
)

// memLog is a partition in memory that misbehaves as told. It implements partition.
type memLog struct {
	mu      sync.Mutex
	start   domain.Offset
	skipped domain.Offset // offsets to leave out before the next record
	records []memRecord
	grown   chan struct{} // closed and replaced when something was appended
	faults  []fault       // one for each Append to come
	always  fault         // once faults are used up
	held    []func()      // requests that are still on their way
	reads   int
	appends int
	unread  error // what Read answers
}

type memRecord struct {
	offset domain.Offset
	value  []byte
}

// fault is what happens to one Append.
type fault string

const (
	ok       fault = ""
	lostAck  fault = "lost-ack" // appended, no answer
	lost     fault = "lost"     // not appended, no answer
	late     fault = "late"     // no answer; appended when the script says so
	refused  fault = "refused"  // surely not written, may succeed later
	tooLarge fault = "too-large"
	denied   fault = "denied" // surely not written, for ever
	doubled2 fault = "doubled"
)

var errNoAnswer = errors.New("no answer")

func newMemLog() *memLog { return &memLog{grown: make(chan struct{})} }

func (l *memLog) end() domain.Offset { // needs mu
	if n := len(l.records); n > 0 {
		return l.records[n-1].offset + 1 + l.skipped
	}
	return l.start + l.skipped
}

// skip leaves a hole of n offsets.
func (l *memLog) skip(n domain.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skipped = n
}

func (l *memLog) put(values ...[]byte) domain.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.putLocked(values...)
}

func (l *memLog) putLocked(values ...[]byte) domain.Offset {
	base := l.end()
	l.skipped = 0
	for i, v := range values {
		l.records = append(l.records, memRecord{base + domain.Offset(i), append([]byte(nil), v...)})
	}
	close(l.grown)
	l.grown = make(chan struct{})
	return base
}

// truncate cuts the log at end.
func (l *memLog) truncate(end domain.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.records) > 0 && l.records[len(l.records)-1].offset >= end {
		l.records = l.records[:len(l.records)-1]
	}
}

// deleteBelow is an administrator's DeleteRecords.
func (l *memLog) deleteBelow(start domain.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	end := l.end()
	for len(l.records) > 0 && l.records[0].offset < start {
		l.records = l.records[1:]
	}
	l.start = start
	if len(l.records) == 0 && end > start {
		l.start = end
	}
}

// release lets the requests that are late arrive.
func (l *memLog) release() {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	for _, f := range held {
		f()
	}
}

func (l *memLog) Append(ctx context.Context, records []kafkalog.Record) (domain.Offset, error) {
	if _, ok := ctx.Deadline(); !ok {
		panic("append without a deadline")
	}
	values := make([][]byte, len(records))
	for i, r := range records {
		values[i] = append([]byte(nil), r.Value...)
	}
	l.mu.Lock()
	l.appends++
	f := l.always
	if len(l.faults) > 0 {
		f, l.faults = l.faults[0], l.faults[1:]
	}
	l.mu.Unlock()
	time.Sleep(time.Millisecond)
	switch f {
	case ok:
		return l.put(values...), nil
	case doubled2:
		l.put(values...)
		return l.put(values...), nil
	case lostAck:
		l.put(values...)
	case late:
		l.mu.Lock()
		l.held = append(l.held, func() { l.put(values...) })
		l.mu.Unlock()
	case refused:
		return 0, &kafkalog.AppendError{NotWritten: true, Err: errors.New("not the leader")}
	case denied:
		return 0, &kafkalog.AppendError{NotWritten: true, Permanent: true, Err: errors.New("denied")}
	case tooLarge:
		return 0, &kafkalog.AppendError{NotWritten: true, Permanent: true, Err: fmt.Errorf("store: %w", errTooLarge)}
	}
	<-ctx.Done()
	return 0, &kafkalog.AppendError{Err: errNoAnswer}
}

func (l *memLog) Bounds(context.Context) (start, end domain.Offset, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.start, l.end(), nil
}

func (l *memLog) Reader() reader { return memReader{l} }

type memReader struct{ log *memLog }

func (memReader) Close() error { return nil }

func (r memReader) Read(ctx context.Context, from domain.Offset, visit func(domain.Offset, []byte) bool) error {
	l := r.log
	l.mu.Lock()
	l.reads++
	err, start, end, grown := l.unread, l.start, l.end(), l.grown
	recs := l.records
	l.mu.Unlock()
	switch {
	case err != nil:
		return err
	case from < start || from > end:
		return kafkalog.ErrOutOfRange
	case from == end:
		select {
		case <-grown:
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
	for _, rec := range recs {
		if rec.offset >= from && !visit(rec.offset, rec.value) {
			return nil
		}
	}
	return nil
}

// fakeLease is a lease that the test moves.
type fakeLease struct {
	mu      sync.Mutex
	invalid bool
	over    bool
}

func (l *fakeLease) Valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.invalid && !l.over
}

func (l *fakeLease) set(invalid, over bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.invalid, l.over = invalid, over
}

func (l *fakeLease) Confirm(ctx context.Context) error {
	select {
	case <-time.After(200 * time.Millisecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return errors.New("the generation is over")
	}
	return nil
}
