package kafkasvc

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

// filled is a partition with n messages of 200 bytes in so many rooms, on an in-process broker on loopback, and
// one takeover behind them.
func filled(b *testing.B, rooms, n, shards int) (c *kafkalog.Cluster, addrs []string, takeover domain.Offset, id uuid.UUID) {
	b.Helper()
	k := kafkatest.StartTCP(b)
	c = kafkalog.New(kafkalog.Config{Brokers: k.Addrs(), Dial: k.Dial})
	b.Cleanup(c.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := c.EnsureTopic(ctx, kafkalog.TopicSpec{Name: "bench", Partitions: shards, ReplicationFactor: 1, MinInSync: 1, MaxMessageBytes: 1 << 20}); err != nil {
		b.Fatal(err)
	}
	next := domain.Offset(0)
	var batch []kafkalog.Record
	flush := func() {
		if _, err := c.Append(ctx, "bench", 0, batch); err != nil {
			b.Fatal(err)
		}
		batch = batch[:0]
	}
	ids := make([]uuid.UUID, rooms)
	for i := range ids {
		ids[i] = uuid.New()
		batch = append(batch, kafkalog.Record{Key: record.Key(ids[i]), Value: record.AppendChatRoom(nil, next, &domain.ChatRoomInfo{ID: ids[i], Name: "room", CreatedAt: 1})})
		if next++; len(batch) == 1000 {
			flush()
		}
	}
	text := strings.Repeat("x", 120)
	for i := range n {
		m := domain.Message{Room: ids[i%rooms], Serial: domain.Serial(i/rooms + 1), User: "alice", ClientID: fmt.Sprint(i), Text: text, SentAt: domain.Millis(i)}
		batch = append(batch, kafkalog.Record{Key: record.Key(m.Room), Value: record.AppendMessage(nil, next, &m)})
		if next++; len(batch) == 1000 {
			flush()
		}
	}
	id = uuid.New()
	batch = append(batch, kafkalog.Record{Value: record.AppendTakeover(nil, &record.Takeover{Instance: domain.Instance{ID: "me"}, Tenure: id})})
	flush()
	return c, k.Addrs(), next, id
}

func loadOnce(b *testing.B, c *kafkalog.Cluster, takeover domain.Offset, id uuid.UUID) {
	store, err := local.Open(local.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	s := &shard{id: 0, log: shardLog{c, "bench", 0}, store: func() *local.Shard { return store.Shard(0) }, ids: newTenureIDs()}
	t := &tenure{id: id, shard: s}
	s.begin(t)
	l := &loader{tenure: t, budget: &budget{bytes: 64 << 20}, wait: defaultWaits(), lg: slog.New(slog.DiscardHandler), alarm: func(string) {}, count: func(local.Verdict) {}}
	if _, err := l.load(context.Background(), takeover); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLoad is a cold shard beside the raw kafka-go read of the same partition, in one run: compare msgs/s.
func BenchmarkLoad(b *testing.B) {
	const n = 500_000
	for _, rooms := range []int{1, 50, 5_000} {
		b.Run(fmt.Sprintf("rooms=%d", rooms), func(b *testing.B) {
			c, addrs, takeover, id := filled(b, rooms, n, 1)
			b.Run("load", func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					loadOnce(b, c, takeover, id)
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
			})
			b.Run("raw", func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					rawRead(b, addrs[0], int64(takeover))
				}
				b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
			})
		})
	}
}

// rawRead is what kafka-go itself does best: Conn and Batch.Read.
func rawRead(b *testing.B, addr string, upTo int64) {
	conn, err := kafka.DialLeader(context.Background(), "tcp", addr, "bench", 0)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Seek(0, kafka.SeekAbsolute|kafka.SeekDontCheck); err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 1<<16)
	for next := int64(0); next <= upTo; {
		batch := conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: 8 << 20})
		for {
			if _, err := batch.Read(buf); err != nil {
				break
			}
		}
		next = batch.Offset()
		if err := batch.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
