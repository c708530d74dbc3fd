package kafkasvc

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// fetched answers a fetch with these bytes for the one partition it asks for.
func fetched(req *kmsg.FetchRequest, code int16, batch []byte) *kmsg.FetchResponse {
	res := req.ResponseKind().(*kmsg.FetchResponse)
	topic, p := kmsg.NewFetchResponseTopic(), kmsg.NewFetchResponseTopicPartition()
	topic.Topic = req.Topics[0].Topic
	p.Partition, p.ErrorCode, p.HighWatermark, p.RecordBatches = req.Topics[0].Partitions[0].Partition, code, 1000, batch
	topic.Partitions = append(topic.Partitions, p)
	res.Topics = append(res.Topics, topic)
	return res
}

// emptied is a batch that says it holds n records, and holds none. Its checksum is right.
func emptied(n int32) []byte {
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: n, LastOffsetDelta: 3, Length: 49}
	return sealed(b.AppendTo(nil))
}

func sealed(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// For a minute the broker answers fetches of a shard with rubbish, with nothing, or with errors: the process lives, the
// shard stays locked and says that it loads, and once the answers are good it has everything.
func TestHome_LoadsThroughBadAnswers(t *testing.T) {
	for name, answer := range map[string]func(*kmsg.FetchRequest) *kmsg.FetchResponse{
		"a record count of -1": func(r *kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(r, 0, emptied(-1)) },
		"a huge record count":  func(r *kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(r, 0, emptied(1<<30)) },
		"half a batch":         func(r *kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(r, 0, emptied(1)[:30]) },
		"nothing":              func(r *kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(r, 0, nil) },
		"errors":               func(r *kmsg.FetchRequest) *kmsg.FetchResponse { return fetched(r, kerr.KafkaStorageError.Code, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
				a := join(t, c, "a").ready()
				info := a.room("kitchen")
				for i := range 30 {
					sendAnywhere(t, info, "alice", fmt.Sprint(i), "text", a)
				}
				want := a.history(info)
				a.end()
				var bad atomic.Bool
				var hits atomic.Int64
				bad.Store(true)
				c.ControlKey(kmsg.Fetch.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
					c.KeepControl()
					req := r.(*kmsg.FetchRequest)
					if !bad.Load() || req.Topics[0].Topic != messages || req.Topics[0].Partitions[0].Partition != int32(info.Shard) {
						return nil, nil, false
					}
					hits.Add(1)
					return answer(req), nil, true
				})
				b := join(t, c, "b")
				b.link.Arm(kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: kmsg.Fetch.Int16(), Topic: messages, Count: -1, Delay: 50 * time.Millisecond})
				time.Sleep(time.Minute)
				if no := b.gate.refusal(info.Shard); no == nil || len(b.Ready()) == 0 {
					t.Error("open without having read the log")
				}
				if n := hits.Load(); n < 10 || n > 2000 {
					t.Errorf("asked %d times in a minute", n)
				}
				bad.Store(false)
				b.ready()
				if got := b.history(info); !slices.Equal(got, want) {
					t.Errorf("%d messages of %d", len(got), len(want))
				}
			})
		})
	}
}

// An administrator deletes records between a loader's look at the log's bounds and its first fetch.
func TestHome_DeletedBetweenBoundsAndFetch(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		for i := range 20 {
			sendAnywhere(t, info, "alice", fmt.Sprint("m", i+1), "text", a)
		}
		a.end()
		b := join(t, c, "b")
		held := b.link.Arm(kafkatest.Rule{Action: kafkatest.HoldRequest, Key: kmsg.Fetch.Int16(), Topic: messages, Partitions: []int32{int32(info.Shard)}, Delay: 2 * time.Second})
		eventually(t, "a fetch on its way", func() error {
			if held.Hits() == 0 {
				return fmt.Errorf("none")
			}
			return nil
		})
		if err := c.DeleteRecords(messages, int32(info.Shard), 12); err != nil { // takeover 0, room 1, m1 at 2
			t.Fatal(err)
		}
		b.ready()
		if n := b.Stats().Tenures; n != 4 {
			t.Errorf("%d takeovers for 4 shards: loading did not look at the bounds again", n)
		}
		if h := b.history(info); len(h) != 10 || h[0].Serial != 11 || h[9].Serial != 20 {
			t.Errorf("%d messages: %s", len(h), texts(h))
		}
	})
}

// Records are deleted while an instance is away, up to a place within its local data or beyond their end. It shows
// what an instance without local data shows.
func TestHome_LocalDataBehindTheLogsStart(t *testing.T) {
	for name, below := range map[string]int64{"within": 12, "beyond": 35} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
				dir := t.TempDir()
				keep := func(cfg *Config) { cfg.DataDir = dir }
				a := join(t, c, "a", keep).ready()
				info := a.room("kitchen")
				post := func(h *testHome, from, to int) {
					for i := from; i < to; i++ {
						sendAnywhere(t, info, "alice", fmt.Sprint("m", i), "text", h)
					}
				}
				post(a, 1, 21) // takeover 0, room 1, m1 at 2: the local data end with 21
				a.end()
				b := join(t, c, "b").ready()
				post(b, 21, 41) // takeover 22, m21 at 23
				b.end()
				if err := c.DeleteRecords(messages, int32(info.Shard), below); err != nil {
					t.Fatal(err)
				}
				a = join(t, c, "a", keep).ready()
				got := a.history(info)
				a.end()
				want := join(t, c, "d").ready().history(info)
				if !slices.Equal(got, want) || len(want) == 0 || want[len(want)-1].Serial != 40 {
					t.Errorf("with local data %d messages from %d, without %d from %d", len(got), first(got), len(want), first(want))
				}
				if first(want) == 1 {
					t.Error("nothing was deleted")
				}
			})
		})
	}
}

func first(ms []domain.Message) domain.Serial {
	if len(ms) == 0 {
		return 0
	}
	return ms[0].Serial
}

// Three brokers restart one after the other under load, each away for five seconds, leaders and the coordinator with
// it: sends go on within a bounded time, who follows the room hears everything once.
func TestHome_EveryBrokerRestartsInTurn(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		var want []domain.Message
		longest := time.Duration(0)
		post := func(until time.Duration) {
			for began := time.Now(); time.Since(began) < until; {
				sent := time.Now()
				want = append(want, sendAnywhere(t, info, "alice", fmt.Sprint(len(want)), "text", a))
				longest = max(longest, time.Since(sent))
				time.Sleep(50 * time.Millisecond)
			}
		}
		for node, port := range map[int32]int{0: 9092, 1: 9093, 2: 9094} {
			if err := c.RemoveNode(node); err != nil {
				t.Fatal(err)
			}
			a.link.CloseConns() // the cluster forgets a node that still has connections
			post(5 * time.Second)
			if _, _, err := c.AddNode(node, port); err != nil {
				t.Fatal(err)
			}
			post(3 * time.Second)
		}
		t.Logf("longest wait of a send: %s", longest)
		if longest > 10*time.Second {
			t.Errorf("no send succeeded for %s", longest)
		}
		if got := a.history(info); !slices.Equal(got, want) {
			t.Errorf("%d messages, %d were answered", len(got), len(want))
		}
	}, kfake.Ports(9092, 9093, 9094))
}
