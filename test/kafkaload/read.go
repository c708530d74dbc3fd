package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"
)

// rawRead reads a partition from its start to the end that it has now by what kafka-go itself does fastest, Conn and
// Batch.Read, and keeps nothing.
func (s *stage) rawRead(ctx context.Context, topic string, partition int) (records int, took time.Duration, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("raw read of %s/%d: %w", topic, partition, err)
		}
	}()
	_, end, err := s.log.Bounds(ctx, topic, int32(partition))
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	conn, err := kafka.DialLeader(ctx, "tcp", s.broker.Addrs()[0], topic, partition)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, 0, err
	}
	buf := make([]byte, 1<<16)
	for next := int64(0); next < int64(end); {
		if _, err := conn.Seek(next, kafka.SeekAbsolute|kafka.SeekDontCheck); err != nil {
			return 0, 0, err
		}
		batch := conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: 8 << 20})
		for {
			offset := batch.Offset()
			if _, err := batch.Read(buf); err != nil {
				if !errors.Is(err, io.EOF) {
					return 0, 0, errors.Join(err, batch.Close())
				}
				break
			}
			if offset >= next { // a fetch begins with a whole batch
				next = offset + 1
				records++
			}
		}
		if err := batch.Close(); err != nil {
			return 0, 0, err
		}
	}
	return records, time.Since(began), nil
}
