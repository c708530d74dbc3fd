package kafkalog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

func TestReader_ReadsInOrderAndSkipsWhatLiesBelow(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		_, c := start(t)
		mustAppend(t, c, "a", "b", "c")
		mustAppend(t, c, "d")
		mustAppend(t, c, "e", "f")
		all := []string{"0:a", "1:b", "2:c", "3:d", "4:e", "5:f"}
		r := c.Reader(topic, 0)
		defer r.Close()
		for from := range all { // a broker sends whole batches: most of these start in the middle of one
			got, err := readAll(t, r, domain.Offset(from))
			if err != nil || !slices.Equal(got, all[from:]) {
				t.Errorf("from %d: %q, %v", from, got, err)
			}
		}
		if r.HighWatermark() != 6 || r.LogStart() != 0 {
			t.Errorf("bounds %d to %d", r.LogStart(), r.HighWatermark())
		}
	})
}

func TestReader_AnEmptyPollEndsWithinMaxWait(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		_, c := start(t)
		mustAppend(t, c, "a")
		r := c.Reader(topic, 0)
		defer r.Close()
		for range 3 {
			began := time.Now()
			err := r.Read(t.Context(), 1, func(domain.Offset, []byte) bool { t.Error("visited"); return true })
			if took := time.Since(began); err != nil || took != kafkalog.DefaultMaxWait {
				t.Errorf("took %v, %v", took, err)
			}
		}
	})
}

func TestReader_ARecordEndsTheWait(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		_, c := start(t)
		r := c.Reader(topic, 0)
		defer r.Close()
		r.MaxWait = time.Minute
		var appended sync.WaitGroup
		defer appended.Wait() // its answer may come after the reader's
		appended.Go(func() {
			time.Sleep(3 * time.Second)
			mustAppend(t, c, "a")
		})
		began := time.Now()
		got, err := "", r.Read(t.Context(), 0, func(_ domain.Offset, v []byte) bool { return true })
		if took := time.Since(began); err != nil || took != 3*time.Second {
			t.Errorf("got %q after %v, %v", got, took, err)
		}
	})
}

func TestReader_StopsWhereTheVisitorHasEnough(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		_, c := start(t)
		for range 50 {
			mustAppend(t, c, text(10_000), text(10_000))
		}
		r := c.Reader(topic, 0)
		defer r.Close()
		for from := range domain.Offset(100) {
			visits := 0
			err := r.Read(t.Context(), from, func(off domain.Offset, _ []byte) bool {
				visits++
				return off != from
			})
			if err != nil || visits != 1 {
				t.Errorf("from %d: %d visits, %v", from, visits, err)
			}
		}
	})
}

func TestReader_OutOfRange(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		mustAppend(t, c, "a", "b", "c", "d")
		if err := k.DeleteRecords(topic, 0, 2); err != nil {
			t.Fatal(err)
		}
		r := c.Reader(topic, 0)
		defer r.Close()
		for _, off := range []domain.Offset{-1, 0, 1, 5, 1 << 40} {
			if got, err := readAll(t, r, off); !errors.Is(err, kafkalog.ErrOutOfRange) {
				t.Errorf("at %d: %q, %v", off, got, err)
			}
		}
		got, err := readAll(t, r, 2)
		if err != nil || !slices.Equal(got, []string{"2:c", "3:d"}) {
			t.Errorf("at the start: %q, %v", got, err)
		}
		if r.LogStart() != 2 {
			t.Errorf("log start %d", r.LogStart())
		}
		start, end, err := c.Bounds(t.Context(), topic, 0)
		if start != 2 || end != 4 || err != nil {
			t.Errorf("bounds %d to %d, %v", start, end, err)
		}
	})
}

func TestReader_EndsPromptlyWithTheContext(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		r := c.Reader(topic, 0)
		defer r.Close()
		r.MaxWait = time.Hour
		gone := errors.New("tenure over")
		for _, silent := range []bool{false, true} {
			if silent {
				k.Silence()
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(2*time.Second, func() { cancel(gone) })
			began := time.Now()
			err := r.Read(ctx, 0, func(domain.Offset, []byte) bool { return true })
			if took := time.Since(began); took != 2*time.Second || !errors.Is(err, gone) {
				t.Errorf("silent %v: took %v, %v", silent, took, err)
			}
		}
		k.Heal()
		r.MaxWait = kafkalog.DefaultMaxWait
		mustAppend(t, c, "a")
		if got, err := readAll(t, r, 0); err != nil || len(got) != 1 {
			t.Errorf("afterwards: %q, %v", got, err)
		}
	})
}

func TestReader_SurvivesAMovedLeader(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t, kfake.Ports(9092, 9093, 9094))
		r := c.Reader(topic, 0)
		defer r.Close()
		for i := range 6 {
			if _, err := c.Append(within(t, time.Second), topic, 0, records("a")); err != nil {
				if _, err := c.Append(within(t, time.Second), topic, 0, records("a")); err != nil {
					t.Fatal(err)
				}
			}
			got, err := readAll(t, r, domain.Offset(i))
			if err != nil {
				got, err = readAll(t, r, domain.Offset(i)) // the first try is what finds out
			}
			if err != nil || len(got) != 1 {
				t.Fatalf("round %d: %q, %v", i, got, err)
			}
			k.MoveTopicPartition(topic, 0, (k.LeaderFor(topic, 0)+1)%3)
		}
	})
}

// Markers of transactions take offsets. They come as records, so that a log that ends in one is read to its end.
func TestReader_ForeignTransactionsAndAborts(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		mustAppend(t, c, "a")
		for i, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
			cl, err := kgo.NewClient(kgo.SeedBrokers(k.Addrs()...), kgo.Dialer(k.Dial), kgo.TransactionalID(fmt.Sprint(i)), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
			if err != nil {
				t.Fatal(err)
			}
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Value: []byte("foreign")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			if err := cl.EndTransaction(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			cl.Close()
		}
		r := c.Reader(topic, 0)
		defer r.Close()
		var offs []domain.Offset
		for next := domain.Offset(0); next < 5; {
			if err := r.Read(t.Context(), next, func(off domain.Offset, _ []byte) bool {
				offs = append(offs, off)
				next = off + 1
				return true
			}); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(offs, []domain.Offset{0, 1, 2, 3, 4}) {
			t.Errorf("offsets %v", offs)
		}
	})
}

// Outside a bubble: kafka-go keeps decompressors, and their channels, from one test to the next.
func TestReader_CompressedBatches(t *testing.T) {
	k, c := start(t)
	var want []string
	for _, codec := range []kgo.CompressionCodec{
		kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(), kgo.NoCompression(),
	} {
		cl, err := kgo.NewClient(kgo.SeedBrokers(k.Addrs()...), kgo.Dialer(k.Dial), kgo.ProducerBatchCompression(codec), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		var rs []*kgo.Record
		for range 100 {
			rs = append(rs, &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte(text(100)), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}}})
			want = append(want, fmt.Sprintf("%d:%s", len(want), text(100)))
		}
		if err := cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		cl.Close()
	}
	r := c.Reader(topic, 0)
	defer r.Close()
	r.MaxWait = 5 * time.Millisecond
	if got, err := readAll(t, r, 0); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d of %d records, %v", len(got), len(want), err)
	}
}

// batchOf is a record batch that can be bent.
func batchOf(base int64, values ...string) []byte {
	b := kafkalog.AppendBatch(nil, records(values...))
	binary.BigEndian.PutUint64(b, uint64(base))
	return b
}

func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// A damaged answer is an error and a new connection, never the end of the process, and good data that come after it
// are read.
func TestReader_DamagedAnswers(t *testing.T) {
	bend := func(change func(b []byte) []byte) []byte { return change(batchOf(0, "a", "b")) }
	huge := func(at int, v uint32) []byte {
		return bend(func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return seal(b) })
	}
	tests := map[string][]byte{
		"record count -1":        huge(57, ^uint32(0)),
		"record count huge":      huge(57, 1<<30),
		"record count too small": huge(57, 1),
		"length -1":              bend(func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], ^uint32(0)); return b }),
		"length 0":               bend(func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 0); return b }),
		"length huge":            bend(func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 1<<31-1); return b }),
		"cut":                    bend(func(b []byte) []byte { return b[:len(b)-3] }),
		"cut in the header":      bend(func(b []byte) []byte { return b[:20] }),
		"cut in the length":      bend(func(b []byte) []byte { return b[:7] }),
		"checksum":               bend(func(b []byte) []byte { b[len(b)-2] ^= 1; return b }),
		"unknown compression":    bend(func(b []byte) []byte { b[22] = 7; return seal(b) }),
		"gzip of nothing":        bend(func(b []byte) []byte { b[22] = 1; return seal(b) }),
		"snappy of nothing":      bend(func(b []byte) []byte { b[22] = 2; return seal(b) }),
		"lz4 of nothing":         bend(func(b []byte) []byte { b[22] = 3; return seal(b) }),
		"zstd of nothing":        bend(func(b []byte) []byte { b[22] = 4; return seal(b) }),
		"old format":             bend(func(b []byte) []byte { b[16] = 1; return b }),
		"offset -1":              bend(func(b []byte) []byte { binary.BigEndian.PutUint64(b, ^uint64(0)); return b }),
		"offset huge":            bend(func(b []byte) []byte { binary.BigEndian.PutUint64(b, 1<<63-1); return b }),
		"last delta -1":          huge(23, ^uint32(0)),
		"last delta too small":   huge(23, 0),
		"record length":          bend(func(b []byte) []byte { b[61] = 0xff; return seal(b) }),
		"key length":             bend(func(b []byte) []byte { b[65] = 0x7f; return seal(b) }),
		"value length":           bend(func(b []byte) []byte { b[67] = 0x7e; return seal(b) }),
		"the same batch twice":   append(batchOf(0, "a", "b"), batchOf(0, "a", "b")...),
	}
	for name, raw := range tests {
		t.Run(name, func(t *testing.T) {
			k, c := start(t)
			mustAppend(t, c, "a", "b")
			k.ControlKey(kmsg.Fetch.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
				return answer(r.(*kmsg.FetchRequest), raw), nil, true
			})
			r := c.Reader(topic, 0)
			defer r.Close()
			r.MaxWait = 5 * time.Millisecond
			var got []string
			visit := func(off domain.Offset, v []byte) bool {
				got = append(got, fmt.Sprintf("%d:%s", off, v))
				return true
			}
			if err := r.Read(within(t, time.Second), 0, visit); !errors.Is(err, kafkalog.ErrDamaged) {
				t.Errorf("got %v, want ErrDamaged", err)
			}
			for i, g := range got {
				if g != []string{"0:a", "1:b"}[i] {
					t.Errorf("visited %q", got)
				}
			}
			if got, err := readAll(t, r, 0); err != nil || !slices.Equal(got, []string{"0:a", "1:b"}) {
				t.Errorf("good data: %q, %v", got, err)
			}
		})
	}
}

func answer(req *kmsg.FetchRequest, raw []byte) *kmsg.FetchResponse {
	res := req.ResponseKind().(*kmsg.FetchResponse)
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic = req.Topics[0].Topic
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition = req.Topics[0].Partitions[0].Partition
	p.HighWatermark = 1000
	p.RecordBatches = raw
	topic.Partitions = append(topic.Partitions, p)
	res.Topics = append(res.Topics, topic)
	return res
}

// Compaction and deleted records leave batches without records and holes between batches. A reader passes them.
func TestReader_PassesBatchesWithoutRecords(t *testing.T) {
	empty := func(base int64, last uint32) []byte {
		b := batchOf(base, "x")[:61]
		binary.BigEndian.PutUint32(b[8:], 61-12)
		binary.BigEndian.PutUint32(b[23:], last)
		binary.BigEndian.PutUint32(b[57:], 0)
		return seal(b)
	}
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		answers := map[int64][]byte{
			0:  empty(0, 9),
			10: append(empty(10, 4), empty(15, 4)...),
			20: append(batchOf(25, "a"), empty(30, 9)...),
			26: empty(30, 9),
			40: nil,
		}
		k.ControlKey(kmsg.Fetch.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			k.KeepControl()
			req := r.(*kmsg.FetchRequest)
			raw, ok := answers[req.Topics[0].Partitions[0].FetchOffset]
			if !ok {
				t.Errorf("asked for %d", req.Topics[0].Partitions[0].FetchOffset)
			}
			return answer(req, raw), nil, true
		})
		r := c.Reader(topic, 0)
		defer r.Close()
		if got, err := readAll(t, r, 0); err != nil || !slices.Equal(got, []string{"25:a"}) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestReader_GoesOnBehindACutBatch(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		_, c := start(t)
		const n = 40
		for range n {
			mustAppend(t, c, text(300_000), text(300_000))
		}
		r := c.Reader(topic, 0)
		defer r.Close()
		next := domain.Offset(0)
		for next < 2*n {
			if err := r.Read(t.Context(), next, func(off domain.Offset, v []byte) bool {
				if off != next || len(v) != 300_000 {
					t.Errorf("offset %d of %d bytes, want %d", off, len(v), next)
				}
				next++
				return true
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestReader_LostConnectionsAreDialledAgain(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		mustAppend(t, c, "a")
		r := c.Reader(topic, 0)
		defer r.Close()
		if got, err := readAll(t, r, 0); err != nil || len(got) != 1 {
			t.Fatalf("%q, %v", got, err)
		}
		k.CloseConns()
		if _, err := readAll(t, r, 0); err == nil {
			t.Error("a closed connection went unnoticed")
		}
		if got, err := readAll(t, r, 0); err != nil || len(got) != 1 {
			t.Errorf("afterwards: %q, %v", got, err)
		}
		k.Arm(kafkatest.Rule{Action: kafkatest.Swallow, Key: kmsg.Fetch.Int16()})
		began := time.Now()
		if _, err := readAll(t, r, 0); err == nil || time.Since(began) > 10*time.Second {
			t.Errorf("a silent broker: %v after %v", err, time.Since(began))
		}
		if got, err := readAll(t, r, 0); err != nil || len(got) != 1 {
			t.Errorf("afterwards: %q, %v", got, err)
		}
	})
}
