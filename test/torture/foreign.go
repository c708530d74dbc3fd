package main

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
	"github.com/chathome/chathome/test/chatlog"
)

// foreignLimit bounds it: the broker may be away.
const foreignLimit = 5 * time.Second

// foreign writes what is none of chathome's business between its records: rubbish, messages that landed elsewhere
// than they name, and transactions with their markers, committed and aborted. Nobody may ever see any of it.
func foreign(ctx context.Context, h hit) (bit int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, foreignLimit)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(h.cluster.Brokers()...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID(fmt.Sprintf("stranger-%d", h.rand.Uint64())), kgo.TransactionTimeout(foreignLimit))
	if err != nil {
		return 0, fmt.Errorf("be a stranger: %w", err)
	}
	defer client.Close()
	for range 1 + h.rand.IntN(5) {
		if client.BeginTransaction() != nil {
			break
		}
		for range 1 + h.rand.IntN(20) {
			r := &kgo.Record{Topic: chatlog.Messages, Partition: h.rand.Int32N(shards), Value: h.foreignValue()}
			if client.ProduceSync(ctx, r).FirstErr() == nil {
				bit++
			}
		}
		if client.EndTransaction(ctx, kgo.TransactionEndTry(h.rand.IntN(2) == 0)) != nil {
			break // the broker is away: the stranger does not care
		}
		h.hold(ctx, h.between(0, 200*time.Millisecond))
	}
	return bit, nil
}

// shards is the default number.
const shards = 12

func (h hit) foreignValue() []byte {
	if h.rand.IntN(2) == 0 {
		value := make([]byte, h.rand.IntN(60))
		for i := range value {
			value[i] = byte(h.rand.Uint32())
		}
		return value
	}
	rooms := h.crowd.Rooms()
	room := uuid.New()
	if len(rooms) > 0 && h.rand.IntN(4) > 0 {
		room = rooms[h.rand.IntN(len(rooms))]
	}
	// It names an offset that no partition of a round ever reaches.
	const far = 1 << 40
	m := domain.Message{Room: room, Serial: domain.Serial(1 + h.rand.IntN(500)), User: "stranger", ClientID: "x", Text: "You should not see this.", SentAt: 1}
	return record.AppendMessage(nil, domain.Offset(far+h.rand.IntN(1000)), &m)
}
