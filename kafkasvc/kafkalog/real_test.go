//go:build kafka

package kafkalog_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
)

// realBrokersEnv names the brokers of a real Kafka for the tests behind the build tag kafka.
const realBrokersEnv = "CHATHOME_KAFKA"

func real(t *testing.T) (brokers []string, name string, c *kafkalog.Cluster, adm *kadm.Client, cl *kgo.Client) {
	t.Helper()
	v := os.Getenv(realBrokersEnv)
	if v == "" {
		t.Fatalf("name the brokers in %s", realBrokersEnv)
	}
	brokers = strings.Split(v, ",")
	c = kafkalog.New(kafkalog.Config{Brokers: brokers, ClientID: "test"})
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return brokers, fmt.Sprintf("kafkalog-%d", time.Now().UnixNano()), c, kadm.NewClient(cl), cl
}

func TestReal_TopicsAppendReadBounds(t *testing.T) {
	_, name, c, adm, cl := real(t)
	want := kafkalog.TopicSpec{Name: name, Partitions: 3, ReplicationFactor: 1, MinInSync: 1, MaxMessageBytes: 1_000_000}
	for range 2 {
		if err := c.EnsureTopic(within(t, 30*time.Second), want); err != nil {
			t.Fatal(err)
		}
	}
	req := kafkalog.Requirements{Topics: []kafkalog.TopicSpec{want}, SessionTimeout: 6 * time.Second}
	if found, err := c.Check(within(t, 30*time.Second), req); err != nil || len(found) > 0 {
		t.Errorf("check: %v, %v", found, err)
	}
	req.SessionTimeout = time.Second
	if found, err := c.Check(within(t, 30*time.Second), req); err != nil || !kafkalog.Refused(found) {
		t.Errorf("check of a short session: %v, %v", found, err)
	}

	// The largest batch that fits, and one byte more.
	fit := kafkalog.Record{Value: []byte(text(1_000_000))}
	fit.Value = fit.Value[:1_000_000-(kafkalog.BatchBytes([]kafkalog.Record{fit})-1_000_000)]
	if n := kafkalog.BatchBytes([]kafkalog.Record{fit}); n != 1_000_000 {
		t.Fatalf("%d bytes", n)
	}
	if base, err := c.Append(within(t, 5*time.Second), name, 0, []kafkalog.Record{fit}); err != nil || base != 0 {
		t.Errorf("a batch of exactly the limit: %d, %v", base, err)
	}
	fit.Value = append(fit.Value, 'x')
	_, err := c.Append(within(t, 5*time.Second), name, 0, []kafkalog.Record{fit})
	if e := appendError(t, err); !e.NotWritten || !e.Permanent || !errors.Is(err, kafka.MessageSizeTooLarge) {
		t.Errorf("a batch over the limit: %v", err)
	}

	var all []string
	next := domain.Offset(0)
	for i := range 300 {
		rs := make([]kafkalog.Record, 1+i%7)
		for j := range rs {
			v := fmt.Sprintf("%d.%d", i, j)
			rs[j] = kafkalog.Record{Key: []byte("k"), Value: []byte(v)}
			all = append(all, fmt.Sprintf("%d:%s", int(next)+j, v))
		}
		base, err := c.Append(within(t, 5*time.Second), name, 1, rs)
		if err != nil || base != next {
			t.Fatalf("append %d: at %d, want %d, %v", i, base, next, err)
		}
		next += domain.Offset(len(rs))
	}
	r := c.Reader(name, 1)
	defer r.Close()
	for _, from := range []int{0, 1, 500, len(all) - 1, len(all)} {
		if got, err := readAll(t, r, domain.Offset(from)); err != nil || !slices.Equal(got, all[from:]) {
			t.Errorf("from %d: %d of %d records, %v", from, len(got), len(all)-from, err)
		}
	}
	if start, end, err := c.Bounds(within(t, 5*time.Second), name, 1); start != 0 || end != next || err != nil {
		t.Errorf("bounds %d to %d, %v", start, end, err)
	}
	if _, err := readAll(t, r, next+1); !errors.Is(err, kafkalog.ErrOutOfRange) {
		t.Errorf("above the end: %v", err)
	}
	if _, err := adm.DeleteRecords(t.Context(), kadm.Offsets{name: {1: {Topic: name, Partition: 1, At: 100}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := readAll(t, r, 99); !errors.Is(err, kafkalog.ErrOutOfRange) {
		t.Errorf("below the start: %v", err)
	}
	if got, err := readAll(t, r, 100); err != nil || !slices.Equal(got, all[100:]) || r.LogStart() != 100 {
		t.Errorf("at the start %d: %d records, %v", r.LogStart(), len(got), err)
	}

	// A log that ends in the marker of an abort.
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: name, Partition: 2, Value: []byte("foreign")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	r2 := c.Reader(name, 2)
	defer r2.Close()
	if got, err := readAll(t, r2, 0); err != nil || len(got) != 2 {
		t.Errorf("an aborted transaction: %q, %v", got, err)
	}
	if n, err := c.PartitionCount(within(t, 5*time.Second), name); n != 3 || err != nil {
		t.Errorf("%d partitions, %v", n, err)
	}
	if _, err := adm.UpdatePartitions(t.Context(), 5, name); err != nil {
		t.Fatal(err)
	}
	for try := 0; ; try++ {
		if n, err := c.PartitionCount(within(t, 5*time.Second), name); n == 5 && err == nil {
			break
		} else if try == 50 {
			t.Errorf("%d partitions, %v", n, err)
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Records carry no time: also a topic that keeps the client's times takes them, whatever the clocks say.
func TestReal_RecordsWithoutTimeAreTakenByEveryTopic(t *testing.T) {
	_, name, c, adm, _ := real(t)
	for _, kind := range []string{"CreateTime", "LogAppendTime"} {
		topic := name + kind
		v := kind
		if _, err := adm.CreateTopics(t.Context(), 1, 1, map[string]*string{"message.timestamp.type": &v}, topic); err != nil {
			t.Fatal(err)
		}
		if err := c.EnsureTopic(within(t, 30*time.Second), kafkalog.TopicSpec{Name: topic, Partitions: 1, ReplicationFactor: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Append(within(t, 5*time.Second), topic, 0, records("a", "b")); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		r := c.Reader(topic, 0)
		if got, err := readAll(t, r, 0); err != nil || len(got) != 2 {
			t.Errorf("%s: %q, %v", kind, got, err)
		}
		r.Close()
		found, err := c.Check(within(t, 30*time.Second), kafkalog.Requirements{Topics: []kafkalog.TopicSpec{{Name: topic, Partitions: 2}}})
		if err != nil || !kafkalog.Refused(found) {
			t.Errorf("%s: a topic with the broker's defaults passes: %v, %v", kind, found, err)
		}
		for _, f := range found {
			t.Log(f)
		}
	}
}

func TestReal_Compaction(t *testing.T) {
	_, name, c, adm, _ := real(t)
	cfg := map[string]*string{}
	for k, v := range map[string]string{"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100", "segment.bytes": "1048576"} {
		cfg[k] = &v
	}
	if _, err := adm.CreateTopics(t.Context(), 1, 1, cfg, name); err != nil {
		t.Fatal(err)
	}
	if err := c.EnsureTopic(within(t, 30*time.Second), kafkalog.TopicSpec{Name: name, Partitions: 1, ReplicationFactor: 1}); err != nil {
		t.Fatal(err)
	}
	r := c.Reader(name, 0)
	defer r.Close()
	const n = 400
	for try := 0; ; try++ {
		for i := range n { // one key: compaction leaves holes and batches without records
			if _, err := c.Append(within(t, 5*time.Second), name, 0, records(fmt.Sprint(i), "x")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		_, end, err := c.Bounds(within(t, 5*time.Second), name, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := readAll(t, r, 0)
		if err != nil {
			t.Fatal(err)
		}
		last := fmt.Sprintf("%d:x", end-1)
		if got[len(got)-1] != last {
			t.Fatalf("the last record read is %s, want %s", got[len(got)-1], last)
		}
		if len(got) < int(end) {
			t.Logf("%d of %d records were left", len(got), end)
			break
		}
		if try == 20 {
			t.Log("the broker has not compacted in time; nothing proved")
			break
		}
	}
}

func TestReal_Group(t *testing.T) {
	brokers, name, c, adm, _ := real(t)
	if err := c.EnsureTopic(within(t, 30*time.Second), kafkalog.TopicSpec{Name: name, Partitions: 2, ReplicationFactor: 1}); err != nil {
		t.Fatal(err)
	}
	g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{ID: name, Brokers: brokers, Topics: []string{name}, HeartbeatInterval: 200 * time.Millisecond, SessionTimeout: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	ctx := within(t, time.Minute)
	gen, err := g.Next(ctx)
	for err != nil && ctx.Err() == nil { // a young cluster has no coordinator yet
		gen, err = g.Next(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Heartbeat(within(t, time.Second), name, gen.ID, gen.MemberID); err != nil {
		t.Errorf("the member: %v", err)
	}
	if err := c.Heartbeat(within(t, time.Second), name, gen.ID+1, gen.MemberID); !errors.Is(err, kafkalog.ErrIllegalGeneration) {
		t.Errorf("wrong generation: %v", err)
	}
	if err := c.Heartbeat(within(t, time.Second), name, gen.ID, "stranger"); !errors.Is(err, kafkalog.ErrUnknownMember) {
		t.Errorf("unknown member: %v", err)
	}
	if err := c.CommitOffsets(within(t, time.Second), name, gen.ID, gen.MemberID, name, map[domain.ShardID]domain.Offset{0: 3, 1: 4}); err != nil {
		t.Errorf("commit: %v", err)
	}
	if err := c.CommitOffsets(within(t, time.Second), name, gen.ID+1, gen.MemberID, name, map[domain.ShardID]domain.Offset{0: 9}); !errors.Is(err, kafkalog.ErrIllegalGeneration) {
		t.Errorf("commit of a wrong generation: %v", err)
	}
	offs, err := adm.FetchOffsets(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[int32]int64{0: 3, 1: 4} {
		if o, ok := offs.Lookup(name, p); !ok || o.At != want {
			t.Errorf("partition %d: committed %d, want %d", p, o.At, want)
		}
	}
	if err := c.LeaveGroup(within(t, time.Second), name, gen.MemberID); err != nil {
		t.Errorf("leave: %v", err)
	}
	if err := c.Heartbeat(within(t, time.Second), name, gen.ID, gen.MemberID); !kafkalog.GenerationOver(err) {
		t.Errorf("heartbeat after leaving: %v", err)
	}
}
