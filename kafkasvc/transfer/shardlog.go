package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
)

// shardLog is a partition of the messages topic.
type shardLog struct {
	cluster    *kafkalog.Cluster
	topic      string
	number     int32
	start, end domain.Offset // when it was opened
	lg         *slog.Logger
}

func openShard(ctx context.Context, cluster *kafkalog.Cluster, topic string, number int, lg *slog.Logger) (*shardLog, error) {
	s := &shardLog{cluster: cluster, topic: topic, number: int32(number), lg: lg}
	err := again(ctx, lg, func() (err error) {
		s.start, s.end, err = cluster.Bounds(ctx, topic, s.number)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask for the bounds of shard %d: %w", number, err)
	}
	return s, nil
}

// read visits every record of [from, end). A record that is missing is an error: what an export lacks is lost.
func (s *shardLog) read(ctx context.Context, from, end domain.Offset, visit func(off domain.Offset, value []byte) error) error {
	r := s.cluster.Reader(s.topic, s.number)
	defer r.Close()
	next := from
	for next < end {
		var fault error // nothing that trying again could mend
		err := again(ctx, s.lg, func() (transient error) {
			err := r.Read(ctx, next, func(off domain.Offset, value []byte) bool {
				if off != next {
					fault = fmt.Errorf("offset %d follows %d: the log has a hole that nothing explains", off, next-1)
					return false
				}
				if fault = visit(off, value); fault != nil {
					return false
				}
				next++
				return next < end
			})
			switch {
			case errors.Is(err, kafkalog.ErrOutOfRange):
				fault = err // records were deleted, or the log was cut, meanwhile
			case fault == nil:
				transient = err
			}
			return transient
		})
		if err == nil {
			err = fault
		}
		if err != nil {
			return fmt.Errorf("read shard %d at offset %d: %w", s.number, next, err)
		}
	}
	return nil
}

// patience is how long brokers may be away before a transfer gives up; an import may be repeated.
const (
	patience   = time.Minute
	firstPause = 50 * time.Millisecond
	lastPause  = 2 * time.Second
)

// again repeats f until it succeeds or patience ends.
func again(ctx context.Context, lg *slog.Logger, f func() error) error {
	pause, since := firstPause, time.Now()
	for {
		err := f()
		if err == nil || ctx.Err() != nil || time.Since(since) > patience {
			return errors.Join(err, context.Cause(ctx))
		}
		if pause == firstPause {
			lg.Warn("Kafka did not answer as it should; trying again", "err", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		pause = min(2*pause, lastPause)
	}
}
