package kafkasvc

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/feed"
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
	t := &tenure{id: id, shard: s, gate: newGate(PolicyShard, domain.Instance{ID: "me"}, func(domain.ShardID) *domain.Owner { return nil })}
	s.begin(t)
	l := &loader{tenure: t, budget: &budget{bytes: defaultLoadBudget}, wait: defaultWaits(), lg: slog.New(slog.DiscardHandler), alarm: func(string) {}}
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

// instant is a log that acknowledges at once: what is left is our own work.
type instant struct {
	next domain.Offset
	recs []kafkalog.Record
}

func (l *instant) Append(_ context.Context, records []kafkalog.Record) (domain.Offset, error) {
	base := l.next
	if l.next == 0 {
		l.recs = append(l.recs, records...) // the takeover, for loading
	}
	l.next += domain.Offset(len(records))
	return base, nil
}
func (l *instant) Bounds(context.Context) (domain.Offset, domain.Offset, error) {
	return 0, l.next, nil
}
func (l *instant) Reader() reader { return instantReader{l} }

type instantReader struct{ l *instant }

func (instantReader) Close() error { return nil }
func (r instantReader) Read(_ context.Context, from domain.Offset, visit func(domain.Offset, []byte) bool) error {
	for i := int(from); i < len(r.l.recs); i++ {
		if !visit(domain.Offset(i), r.l.recs[i].Value) {
			break
		}
	}
	return nil
}

// opened is a shard that serves on an instant log, with one room.
func opened(b *testing.B) (*Home, domain.ChatRoomInfo) {
	b.Helper()
	store, err := local.Open(local.Config{Dir: local.InMemory})
	if err != nil {
		b.Fatal(err)
	}
	s := &stage{store: store, ids: newTenureIDs(), budget: &budget{bytes: 8 << 20}}
	log := &instant{}
	s.shards = []*shard{{id: 0, log: log, ids: s.ids, store: func() *local.Shard { return store.Shard(0) }, announce: make(chan struct{}, 1)}}
	s.gate = newGate(PolicyShard, domain.Instance{ID: "me"}, func(domain.ShardID) *domain.Owner { return nil })
	s.assign([]domain.ShardID{0})
	b.Cleanup(func() { s.revoke(); store.Close() })
	for s.gate.refusal(0) != nil {
		time.Sleep(time.Millisecond)
	}
	t, err := s.gate.enter(0)
	if err != nil {
		b.Fatal(err)
	}
	c := newCommand(uuid.New())
	c.create, c.name = true, "room"
	r := t.submit(context.Background(), c)
	if r.err != nil {
		b.Fatal(r.err)
	}
	return &Home{gate: s.gate, cfg: Config{RequestTimeout: 10 * time.Second}, lg: slog.New(slog.DiscardHandler)}, r.info
}

// BenchmarkSend is the way of a message from the gate to its answer, without Kafka. allocs/op counts everything
// between resolver and batch, the group commit and the local store.
func BenchmarkSend(b *testing.B) {
	for _, writers := range []int{1, 64, 1000} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			h, info := opened(b)
			text := strings.Repeat("x", 120)
			b.ReportAllocs()
			b.SetParallelism(max(1, writers/2))
			var n atomic.Int64
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, err := h.ChatRoom(ctx, 0, info.ID)
					if err == nil {
						_, _, err = r.Send(ctx, domain.Draft{User: "alice", ClientID: fmt.Sprint(n.Add(1)), Text: text})
					}
					if err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkWake: what a group commit costs a room that so many follow. It does not grow with the messages in it.
func BenchmarkWake(b *testing.B) {
	for _, followers := range []int{1, 1000} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) {
			f := feed.New(0, nil)
			wakes := 0
			for range followers {
				f.Watch(func() { wakes++ })
			}
			b.ReportAllocs()
			for i := range b.N {
				f.Advance(domain.Serial(i + 1))
			}
			if wakes != followers*b.N {
				b.Errorf("%d wake-ups", wakes)
			}
		})
	}
}
