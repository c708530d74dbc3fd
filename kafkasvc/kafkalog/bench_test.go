package kafkalog_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// brokersEnv names brokers to measure against instead of the one in the process, comma-separated.
const brokersEnv = "CHATHOME_BENCH_BROKERS"

func benchTopic(b *testing.B) (brokers []string, topic string, c *kafkalog.Cluster) {
	b.Helper()
	if v := os.Getenv(brokersEnv); v != "" {
		brokers = strings.Split(v, ",")
	} else {
		brokers = kafkatest.StartTCP(b).Addrs()
	}
	topic = fmt.Sprintf("bench-%d", time.Now().UnixNano())
	c = kafkalog.New(kafkalog.Config{Brokers: brokers})
	b.Cleanup(c.Close)
	if err := c.EnsureTopic(within(b, 30*time.Second), kafkalog.TopicSpec{Name: topic, Partitions: 1, ReplicationFactor: 1}); err != nil {
		b.Fatal(err)
	}
	return brokers, topic, c
}

func batch(n int) []kafkalog.Record {
	rs := make([]kafkalog.Record, n)
	for i := range rs {
		rs[i] = kafkalog.Record{Key: []byte("0190a000-0000-7000-8000-000000000000"), Value: []byte(text(200))}
	}
	return rs
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			_, topic, c := benchTopic(b)
			rs := batch(n)
			ctx := within(b, time.Hour)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				if _, err := c.Append(ctx, topic, 0, rs); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

// What Append is measured against: kafka-go's client.
func BenchmarkClientProduce(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			brokers, topic, _ := benchTopic(b)
			t := &kafka.Transport{MetadataTTL: 200 * time.Millisecond}
			defer t.CloseIdleConnections()
			client := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: t}
			rs := batch(n)
			ctx := within(b, time.Hour)
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				krs := make([]kafka.Record, n)
				for i := range rs {
					krs[i] = kafka.Record{Key: kafka.NewBytes(rs[i].Key), Value: kafka.NewBytes(rs[i].Value)}
				}
				res, err := client.Produce(ctx, &kafka.ProduceRequest{Topic: topic, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(krs...)})
				if err == nil {
					err = res.Error
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

const benchRecords = 500_000

func fill(b *testing.B, c *kafkalog.Cluster, topic string) {
	b.Helper()
	rs := batch(1000)
	for range benchRecords / len(rs) {
		if _, err := c.Append(within(b, 30*time.Second), topic, 0, rs); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	_, topic, c := benchTopic(b)
	fill(b, c, topic)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		r := c.Reader(topic, 0)
		next, sum := domain.Offset(0), 0
		for next < benchRecords {
			if err := r.Read(b.Context(), next, func(off domain.Offset, v []byte) bool {
				next, sum = off+1, sum+len(v)
				return true
			}); err != nil {
				b.Fatal(err)
			}
		}
		r.Close()
		if sum != benchRecords*200 {
			b.Fatalf("%d bytes", sum)
		}
	}
	b.ReportMetric(float64(b.N)*benchRecords/b.Elapsed().Seconds(), "records/s")
}

// What Read is measured against: kafka-go's fastest way, which checks no checksums.
func BenchmarkBatchRead(b *testing.B) {
	brokers, topic, c := benchTopic(b)
	fill(b, c, topic)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		conn, err := kafka.DialLeader(b.Context(), "tcp", brokers[0], topic, 0)
		if err != nil {
			b.Fatal(err)
		}
		next, sum := int64(0), 0
		buf := make([]byte, 64<<10)
		for next < benchRecords {
			if _, err := conn.Seek(next, kafka.SeekAbsolute|kafka.SeekDontCheck); err != nil {
				b.Fatal(err)
			}
			batch := conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: 8 << 20, MaxWait: 250 * time.Millisecond})
			for {
				off := batch.Offset()
				n, err := batch.Read(buf)
				if err != nil {
					if !errors.Is(err, io.EOF) {
						b.Fatal(err)
					}
					break
				}
				if off >= next {
					next, sum = off+1, sum+n
				}
			}
			if err := batch.Close(); err != nil {
				b.Fatal(err)
			}
		}
		conn.Close()
		if sum != benchRecords*200 {
			b.Fatalf("%d bytes", sum)
		}
	}
	b.ReportMetric(float64(b.N)*benchRecords/b.Elapsed().Seconds(), "records/s")
}
