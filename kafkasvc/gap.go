package kafkasvc

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
)

// errGap: a part of the log that must be there cannot be read any more.
var errGap = errors.New("the log does not hold what lies between")

// patience bounds how long the log may answer, without an error, that it does not hold what a broker has
// acknowledged. The answer may lag behind for a moment after a leader has moved; after so long the log was cut.
type patience struct{ since time.Time }

const emptyFor = 10 * time.Second

// out is told after each round whether the log answered that nothing is there.
func (p *patience) out(nothing bool) bool {
	switch {
	case !nothing:
		p.since = time.Time{}
	case p.since.IsZero():
		p.since = time.Now()
	}
	return nothing && time.Since(p.since) > emptyFor
}

// gapAfterStop bounds the reading of a gap once the generation is over: only answers hang on it then.
const gapAfterStop = 2 * time.Second

// read returns the records [from, end), which the broker has acknowledged. While the tenure lives it waits
// for them; afterwards a little only. errGap: they are not there.
func (w *writer) read(stop context.Context, from, end domain.Offset) ([]logRecord, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	defer context.AfterFunc(stop, func() {
		time.AfterFunc(gapAfterStop, func() { cancel(context.Cause(stop)) })
	})()
	r := w.tenure.shard.log.Reader()
	defer r.Close()
	var recs []logRecord
	next, holed := from, false
	var wait patience
	for attempt := 0; ; attempt++ {
		before := next
		err := r.Read(ctx, next, func(off domain.Offset, value []byte) bool {
			if off >= end {
				holed = next < end
				return false
			}
			if off != next {
				holed = true
				return false
			}
			recs = append(recs, logRecord{off, bytes.Clone(value)})
			next++
			return next < end
		})
		switch {
		case next == end:
			return recs, nil
		case holed, errors.Is(err, kafkalog.ErrOutOfRange), wait.out(err == nil && next == before):
			return nil, errGap
		case ctx.Err() != nil:
			return nil, errUnsettled
		}
		if err != nil && w.wait.backOff(ctx, attempt) != nil {
			return nil, errUnsettled
		}
	}
}
