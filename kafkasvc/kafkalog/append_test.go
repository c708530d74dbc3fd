package kafkalog_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

func TestAppend_OneRequestWithOneBatchHoweverManyRecords(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		for i, n := range []int{1, 2, 127, 128, 1000, 4900} {
			var batches []kmsg.RecordBatch
			k.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
				k.DropControl()
				for raw := r.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records; len(raw) > 0; {
					var b kmsg.RecordBatch
					if err := b.ReadFrom(raw); err != nil {
						t.Errorf("%d records: %v", n, err)
						break
					}
					batches = append(batches, b)
					raw = raw[12+b.Length:]
				}
				return nil, nil, false
			})
			rs := make([]kafkalog.Record, n)
			for i := range rs {
				rs[i] = kafkalog.Record{Key: []byte("key"), Value: []byte(text(200))}
			}
			if _, err := c.Append(within(t, time.Second), topic, 0, rs); err != nil {
				t.Fatalf("%d records: %v", n, err)
			}
			if len(batches) != 1 || int(batches[0].NumRecords) != n {
				t.Errorf("%d records left in %d batches", n, len(batches))
			}
			if got, want := 12+int(batches[0].Length), kafkalog.BatchBytes(rs); got != want {
				t.Errorf("%d records make a batch of %d bytes, BatchBytes says %d", n, got, want)
			}
			if got := k.Requests(kmsg.Produce.Int16(), topic); got != i+1 {
				t.Errorf("%d produce requests after %d appends", got, i+1)
			}
		}
	})
}

func TestAppend_OffsetsFollowEachOther(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		_, c := start(t)
		want := domain.Offset(0)
		for _, n := range []int{1, 3, 1, 7} {
			values := make([]string, n)
			if base := mustAppend(t, c, values...); base != want {
				t.Errorf("base %d, want %d", base, want)
			}
			want += domain.Offset(n)
		}
	})
}

func TestAppend_ClassifiesBrokerCodes(t *testing.T) {
	tests := []struct {
		err                   *kerr.Error
		notWritten, permanent bool
	}{
		{kerr.UnknownTopicOrPartition, true, false},
		{kerr.NotLeaderForPartition, true, false},
		{kerr.MessageTooLarge, true, true},
		{kerr.NotEnoughReplicas, true, false},
		{kerr.TopicAuthorizationFailed, true, true},
		{kerr.InvalidTimestamp, true, true},
		{kerr.OutOfOrderSequenceNumber, true, true},
		{kerr.InvalidProducerEpoch, true, true},
		{kerr.InvalidRecord, true, true},
		{kerr.CorruptMessage, true, false},
		{kerr.RequestTimedOut, false, false},
		{kerr.NotEnoughReplicasAfterAppend, false, false},
		{kerr.UnknownServerError, false, false},
		{kerr.KafkaStorageError, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.err.Message, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				k, c := start(t)
				k.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: tt.err})
				_, err := c.Append(within(t, time.Second), topic, 0, records("a"))
				e := appendError(t, err)
				if e.NotWritten != tt.notWritten || e.Permanent != tt.permanent {
					t.Errorf("not written %v, permanent %v; want %v, %v", e.NotWritten, e.Permanent, tt.notWritten, tt.permanent)
				}
				if !errors.Is(err, kafka.Error(tt.err.Code)) {
					t.Errorf("%v does not name code %d", err, tt.err.Code)
				}
				end := k.PartitionInfo(topic, 0).HighWatermark
				if tt.notWritten && end != 0 {
					t.Error("said to be not written, but it is in the log")
				}
				mustAppend(t, c, "b") // and goes on afterwards
			})
		})
	}
}

func TestAppend_Faults(t *testing.T) {
	tests := []struct {
		name       string
		rule       kafkatest.Rule
		notWritten bool
		inLog      int64 // after a minute
	}{
		{"answer lost", kafkatest.Rule{Action: kafkatest.LoseAnswer}, false, 1},
		{"cut before the request", kafkatest.Rule{Action: kafkatest.CutBefore}, false, 0},
		{"request vanishes", kafkatest.Rule{Action: kafkatest.Swallow}, false, 0},
		{"lands later", kafkatest.Rule{Action: kafkatest.LandLate, Delay: 10 * time.Second}, false, 1},
		{"answer too late", kafkatest.Rule{Action: kafkatest.HoldAnswer, Delay: 10 * time.Second}, false, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				k, c := start(t)
				tt.rule.Key = kmsg.Produce.Int16()
				k.Arm(tt.rule)
				began := time.Now()
				_, err := c.Append(within(t, 2*time.Second), topic, 0, records("a"))
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("took %v with a deadline of 2s", took)
				}
				if e := appendError(t, err); e.NotWritten != tt.notWritten || e.Permanent {
					t.Errorf("not written %v, permanent %v: %v", e.NotWritten, e.Permanent, err)
				}
				time.Sleep(time.Minute)
				if n := k.PartitionInfo(topic, 0).HighWatermark; n != tt.inLog {
					t.Errorf("%d records in the log, want %d: it was retried or lost", n, tt.inLog)
				}
				mustAppend(t, c, "b")
			})
		})
	}
}

func TestAppend_NotWrittenWhereNothingWasSent(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		_, err := c.Append(within(t, time.Second), "no-such-topic", 0, records("a"))
		if e := appendError(t, err); !e.NotWritten || e.Permanent || !errors.Is(err, kafka.UnknownTopicOrPartition) {
			t.Errorf("unknown topic: %v", err)
		}
		_, err = c.Append(within(t, time.Second), topic, 99, records("a"))
		if e := appendError(t, err); !e.NotWritten || e.Permanent {
			t.Errorf("unknown partition: %v", err)
		}
		_, err = c.Append(within(t, time.Second), topic, 0, nil)
		if e := appendError(t, err); !e.NotWritten || !e.Permanent {
			t.Errorf("no records: %v", err)
		}
		k.Cut()
		_, err = c.Append(within(t, time.Second), topic, 1, records("a"))
		if e := appendError(t, err); !e.NotWritten {
			t.Errorf("cut link: %v", err)
		}
		k.Heal()
		if _, err = c.Append(within(t, time.Second), topic, 1, records("a")); err != nil {
			t.Errorf("healed link: %v", err)
		}
	})
}

func TestAppend_SilentLinkEndsWithTheDeadlineAndIsForgotten(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		mustAppend(t, c, "a")
		k.Silence()
		began := time.Now()
		_, err := c.Append(within(t, 700*time.Millisecond), topic, 0, records("b"))
		if took := time.Since(began); took != 700*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if e := appendError(t, err); e.NotWritten || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		k.Heal()
		if base := mustAppend(t, c, "c"); base > 2 {
			t.Errorf("landed at %d", base)
		}
	})
}

func TestAppend_FollowsTheLeaderAtOnce(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t, kfake.Ports(9092, 9093, 9094))
		for i := range 9 {
			mustAppend(t, c, "a")
			to := (k.LeaderFor(topic, 0) + 1) % 3
			if err := k.MoveTopicPartition(topic, 0, to); err != nil {
				t.Fatal(err)
			}
			_, err := c.Append(within(t, time.Second), topic, 0, records("b"))
			if e := appendError(t, err); !e.NotWritten || !errors.Is(err, kafka.NotLeaderForPartition) {
				t.Fatalf("move %d: %v", i, err)
			}
			// No waiting for a clock: the very next try asks who leads.
			if _, err := c.Append(within(t, time.Second), topic, 0, records("b")); err != nil {
				t.Fatalf("after move %d: %v", i, err)
			}
		}
	})
}

func TestAppend_OneSilentBrokerDoesNotHideTheOthers(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k := kafkatest.Start(t, kfake.SeedTopics(1, topic), kfake.Ports(9092, 9093, 9094))
		c := kafkalog.New(kafkalog.Config{Brokers: append([]string{"localhost:1"}, k.Addrs()...), Dial: k.Dial})
		t.Cleanup(c.Close)
		if _, err := c.Append(within(t, 5*time.Second), topic, 0, records("a")); err != nil {
			t.Error(err)
		}
	})
}

func TestAppend_AnIdleClientAsksNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		mustAppend(t, c, "a")
		before := k.Requests(kmsg.Metadata.Int16(), "")
		time.Sleep(time.Hour)
		if n := k.Requests(kmsg.Metadata.Int16(), ""); n != before {
			t.Errorf("%d requests for metadata in an idle hour", n-before)
		}
		mustAppend(t, c, "b") // over a new connection: the old one has rested too long
	})
}

func TestCluster_CloseEndsEverythingAndLeavesNoConnection(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k, c := start(t)
		mustAppend(t, c, "a")
		k.Arm(kafkatest.Rule{Action: kafkatest.Swallow, Key: kmsg.Produce.Int16()})
		ended := make(chan error, 2)
		go func() {
			_, err := c.Append(within(t, time.Minute), topic, 0, records("b"))
			ended <- err
		}()
		r := c.Reader(topic, 1)
		r.MaxWait = time.Minute
		go func() {
			ended <- r.Read(within(t, time.Hour), 0, func(domain.Offset, []byte) bool { return true })
		}()
		time.Sleep(time.Second)
		began := time.Now()
		c.Close()
		for range 2 {
			if err := <-ended; !errors.Is(err, kafkalog.ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v", took)
		}
		if _, err := c.Append(within(t, time.Second), topic, 0, records("c")); !errors.Is(err, kafkalog.ErrClosed) {
			t.Errorf("append after Close: %v", err)
		}
		if err := r.Read(t.Context(), 0, nil); !errors.Is(err, kafkalog.ErrClosed) {
			t.Errorf("read after Close: %v", err)
		}
		synctest.Wait()
		if n := k.Conns(); n != 0 {
			t.Errorf("%d connections are still open", n)
		}
	})
}
