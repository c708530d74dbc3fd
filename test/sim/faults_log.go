package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
)

// What others do to the log.
func logFaults() []*fault {
	return []*fault{
		{name: "foreign records", length: 3 * time.Second, strike: foreignRecords},
		{name: "foreign transactions", length: 3 * time.Second, strike: foreignTransactions},
		{name: "foreign takeover", length: 3 * time.Second, strike: foreignTakeover},
		{name: "records deleted", mode: Deleting, length: time.Second, strike: deleteRecords},
	}
}

// stranger is a producer that is none of chathome.
func (w *world) stranger(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(opts,
		kgo.SeedBrokers(w.addrs...), kgo.Dialer(w.cluster.Dial), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RecordDeliveryTimeout(10*time.Second))...)
}

func put(ctx context.Context, cl *kgo.Client, shard int, value []byte) bool {
	return cl.ProduceSync(ctx, &kgo.Record{Topic: messages, Partition: int32(shard), Value: value}).FirstErr() == nil
}

// nowhere is an offset that no log here reaches: a stranger's record must not count by chance, in topics just made.
const nowhere = domain.Offset(1 << 40)

// stray is a record that looks right and does not name where it lands.
func (w *world) stray(r *rand.Rand) (shard int, value []byte) {
	rooms := w.current().rooms
	room := rooms[r.IntN(len(rooms))]
	m := domain.Message{Room: room.ID, Serial: domain.Serial(1 + r.IntN(100)), User: "mallory", ClientID: "stray", Text: "stray"}
	switch r.IntN(4) {
	case 0:
		return int(room.Shard), []byte("rubbish")
	case 1:
		return int(room.Shard), nil
	case 2:
		return int(room.Shard), record.AppendChatRoom(nil, nowhere, &domain.ChatRoomInfo{ID: randomUUID(r), Name: "stray"})
	}
	return int(room.Shard), record.AppendMessage(nil, nowhere, &m)
}

func foreignRecords(w *world, r *rand.Rand, length time.Duration) (bites int) {
	cl, err := w.stranger()
	if err != nil {
		return 0
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), length+10*time.Second)
	defer cancel()
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Duration(10+r.IntN(600)) * time.Millisecond) {
		if shard, value := w.stray(r); put(ctx, cl, shard, value) {
			bites++
		}
	}
	return bites
}

func foreignTransactions(w *world, r *rand.Rand, length time.Duration) (bites int) {
	cl, err := w.stranger(kgo.TransactionalID("foreign"), kgo.TransactionTimeout(20*time.Second))
	if err != nil {
		return 0
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), length+20*time.Second)
	defer cancel()
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Duration(10+r.IntN(900)) * time.Millisecond) {
		if cl.BeginTransaction() != nil {
			return bites
		}
		shard, value := w.stray(r)
		ok := put(ctx, cl, shard, value)
		if cl.EndTransaction(ctx, kgo.TransactionEndTry(ok && r.IntN(2) == 0)) != nil {
			return bites
		}
		if ok {
			bites++
		}
	}
	return bites
}

// foreignTakeover: somebody appends a takeover who owns nothing. The owner has to ask the group, and go on.
func foreignTakeover(w *world, r *rand.Rand, _ time.Duration) (bites int) {
	cl, err := w.stranger()
	if err != nil {
		return 0
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for range 1 + r.IntN(3) {
		if put(ctx, cl, r.IntN(w.cfg.Shards), record.AppendTakeover(nil, &record.Takeover{Instance: domain.Instance{ID: "stranger", URL: "http://stranger"}, Tenure: randomUUID(r)})) {
			bites++
		}
	}
	return bites
}
