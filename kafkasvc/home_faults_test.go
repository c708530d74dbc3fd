package kafkasvc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/kafkasvc/record"
)

const messages = "chathome.messages"

// room creates one on an instance that is open.
func (h *testHome) room(name string) domain.ChatRoomInfo {
	h.t.Helper()
	var info domain.ChatRoomInfo
	id := h.DrawChatRoomID()
	eventually(h.t, "create "+name, func() (err error) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		info, _, err = h.CreateChatRoom(ctx, id, name)
		return err
	})
	return info
}

func (h *testHome) history(room domain.ChatRoomInfo) []domain.Message {
	h.t.Helper()
	var p domain.Page
	eventually(h.t, "history", func() error {
		r, err := h.ChatRoom(h.t.Context(), room.Shard, room.ID)
		if err == nil {
			p, err = r.Messages(h.t.Context(), domain.Range{Limit: 10_000})
		}
		return err
	})
	return p.Messages
}

func texts(ms []domain.Message) string {
	var b strings.Builder
	for i, m := range ms {
		fmt.Fprintf(&b, "%d:%s ", m.Serial, m.Text)
		if m.Serial != domain.Serial(i+1) {
			b.WriteString("(gap) ")
		}
	}
	return strings.TrimSpace(b.String())
}

// stored counts, by an independent reader, the records of the messages topic that count for a client id.
func stored(t *testing.T, c *kafkatest.Cluster, clientID string) (counting, void int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.Dialer(c.Dial), kgo.ConsumeTopics(messages), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		f := cl.PollFetches(ctx)
		cancel()
		if f.NumRecords() == 0 {
			return counting, void
		}
		f.EachRecord(func(r *kgo.Record) {
			var v record.View
			if v.Decode(r.Value) == nil && v.Kind == record.KindMessageAdded && string(v.ClientID) == clientID {
				if v.At == r.Offset {
					counting++
				} else {
					void++
				}
			}
		})
	}
}

// A paused process answers nothing under its old lease: its clock has jumped, nobody else was told.
func TestHome_PausedOwnerAnswersNothing(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		var paused atomic.Int64
		a := join(t, c, "a", func(cfg *Config) {
			clock := cfg.Clock
			cfg.Clock = func() time.Duration { return clock() + time.Duration(paused.Load()) }
		}).ready()
		info := a.room("kitchen")
		sendAnywhere(t, info, "alice", "1", "one", a)
		room, err := a.ChatRoom(t.Context(), info.Shard, info.ID)
		if err != nil {
			t.Fatal(err)
		}
		feed := room.Feed()
		woken := make(chan struct{}, 1)
		defer feed.Watch(func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})()
		a.link.Silence()
		paused.Store(int64(10 * time.Second))
		var no *domain.ShardNotOwnedError
		if _, err := a.ChatRoom(t.Context(), info.Shard, info.ID); !errors.As(err, &no) || no.State != domain.ShardLocked {
			t.Errorf("the gate let a request pass: %v", err)
		}
		if _, _, err := room.Message(t.Context(), "alice", "1"); !errors.As(err, &no) {
			t.Errorf("a handle of before answered: %v", err)
		}
		if _, _, err := room.Send(t.Context(), domain.Draft{User: "alice", ClientID: "1", Text: "one"}); !errors.As(err, &no) {
			t.Errorf("a duplicate was answered: %v", err)
		}
		if err := feed.Err(); !errors.As(err, &no) {
			t.Errorf("the feed stands: %v", err)
		}
		select {
		case <-woken:
		case <-time.After(5 * time.Second):
			t.Error("who follows the room was not woken")
		}
		a.link.Heal()
		sendAnywhere(t, info, "alice", "2", "two", a)
		if got := texts(a.history(info)); got != "1:one 2:two" {
			t.Error(got)
		}
	})
}

// Whatever a broker answers to a produce request: no message is lost or doubled, and the shard can be written
// again without a restart.
func TestHome_EveryAnswerToProduce(t *testing.T) {
	for _, e := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.RequestTimedOut, kerr.NotEnoughReplicas,
		kerr.NotEnoughReplicasAfterAppend, kerr.InvalidProducerEpoch, kerr.TopicAuthorizationFailed, kerr.MessageTooLarge,
		kerr.UnknownServerError, kerr.CorruptMessage, kerr.KafkaStorageError, kerr.InvalidTimestamp, kerr.LeaderNotAvailable,
	} {
		t.Run(e.Message, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
				a := join(t, c, "a").ready()
				info := a.room("kitchen")
				sendAnywhere(t, info, "alice", "1", "one", a)
				f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: messages, Partitions: []int32{int32(info.Shard)}, Err: e, Count: 3})
				first, _, err := send(a, info, "alice", "2", "two")
				if f.Hits() == 0 {
					t.Fatal("the fault never bit")
				}
				if err == nil && first.Serial != 2 {
					t.Errorf("stored with serial %d", first.Serial)
				}
				m := sendAnywhere(t, info, "alice", "2", "two", a)
				if m.Serial != 2 {
					t.Errorf("the retry has serial %d", m.Serial)
				}
				sendAnywhere(t, info, "alice", "3", "three", a)
				if got := texts(a.history(info)); got != "1:one 2:two 3:three" {
					t.Error(got)
				}
				if n, _ := stored(t, c, "2"); n != 1 {
					t.Errorf("%d records count", n)
				}
			})
		})
	}
}

// Lost acks and requests that never arrive, in a steady stream of sends: each key counts once.
func TestHome_LostAcks(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		lost := a.link.Arm(kafkatest.Rule{Action: kafkatest.LoseAnswer, Key: kmsg.Produce.Int16(), Topic: messages, Count: -1, Every: 7})
		cut := a.link.Arm(kafkatest.Rule{Action: kafkatest.CutBefore, Key: kmsg.Produce.Int16(), Topic: messages, Count: -1, Every: 11})
		var want []string
		for i := range 200 {
			id := fmt.Sprint("m", i)
			m := sendAnywhere(t, info, "alice", id, id, a)
			want = append(want, fmt.Sprintf("%d:%s", m.Serial, id))
		}
		lost.Stop()
		cut.Stop()
		if lost.Hits() < 10 || cut.Hits() < 10 {
			t.Errorf("the faults bit %d and %d times", lost.Hits(), cut.Hits())
		}
		if got := texts(a.history(info)); got != strings.Join(want, " ") {
			t.Errorf("history: %s\nanswers: %s", got, want)
		}
	})
}

// 50 identical sends while the broker is silent: one record, one serial.
func TestHome_FiftyIdenticalSends(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		hold := a.link.Arm(kafkatest.Rule{Action: kafkatest.HoldRequest, Key: kmsg.Produce.Int16(), Topic: messages, Delay: 3 * time.Second, Count: 2})
		var wg sync.WaitGroup
		var first atomic.Int64
		for range 50 {
			wg.Go(func() {
				m, dup, err := send(a, info, "alice", "1", "one")
				switch {
				case err != nil || m.Serial != 1:
					t.Errorf("%+v %v", m, err)
				case !dup:
					first.Add(1)
				}
			})
		}
		wg.Wait()
		if hold.Hits() == 0 || first.Load() != 1 {
			t.Errorf("hits %d, %d of 50 are no duplicates", hold.Hits(), first.Load())
		}
		if n, _ := stored(t, c, "1"); n != 1 {
			t.Errorf("%d records count", n)
		}
	})
}

// The broker is silent, and the caller set no deadline: a write still ends, and says that its fate is unknown.
func TestHome_NoWriteHangs(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		room, err := a.ChatRoom(t.Context(), info.Shard, info.ID)
		if err != nil {
			t.Fatal(err)
		}
		a.link.Arm(kafkatest.Rule{Action: kafkatest.Swallow, Key: kmsg.Produce.Int16(), Topic: messages, Count: -1})
		began := time.Now()
		_, _, err = room.Send(context.Background(), domain.Draft{User: "alice", ClientID: "1", Text: "one"})
		var unknown *domain.OutcomeUnknownError
		if took := time.Since(began); !errors.As(err, &unknown) || took > a.cfg.RequestTimeout {
			t.Errorf("%v after %s", err, took)
		}
		_, _, err = a.CreateChatRoom(context.Background(), a.DrawChatRoomID(), "cellar")
		if err == nil {
			t.Error("created without the broker")
		}
	})
}

// More commands than a shard's queue takes: refused at once, typed, and nothing of them is written.
func TestHome_FullQueueIsOverloaded(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		hold := a.link.Arm(kafkatest.Rule{Action: kafkatest.HoldRequest, Key: kmsg.Produce.Int16(), Topic: messages, Delay: 800 * time.Millisecond, Count: 1})
		text := strings.Repeat("x", domain.MaxTextBytes)
		var wg sync.WaitGroup
		var over, ok atomic.Int64
		for i := range 2500 { // 20 MiB
			wg.Go(func() {
				_, _, err := send(a, info, "alice", fmt.Sprint("q", i), text)
				var o *domain.OverloadedError
				switch {
				case err == nil:
					ok.Add(1)
				case errors.As(err, &o) && o.RetryAfter > 0:
					over.Add(1)
				default:
					t.Errorf("%v", err)
				}
			})
		}
		wg.Wait()
		if hold.Hits() == 0 || over.Load() == 0 || ok.Load() == 0 {
			t.Errorf("%d overloaded, %d stored", over.Load(), ok.Load())
		}
		if n := len(a.history(info)); n != int(ok.Load()) {
			t.Errorf("%d in the history, %d answered as stored", n, ok.Load())
		}
	})
}

// Cut off from all brokers for a minute, then healed: served again within a session.
func TestHome_ComesBackAfterIsolation(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		sendAnywhere(t, info, "alice", "1", "one", a)
		for _, how := range []func(){a.link.Cut, a.link.Silence} {
			how()
			time.Sleep(time.Minute)
			var no *domain.ShardNotOwnedError
			if _, err := a.ChatRoom(t.Context(), info.Shard, info.ID); !errors.As(err, &no) {
				t.Errorf("answered while cut off: %v", err)
			}
			a.link.Heal()
			healed := time.Now()
			a.ready()
			if took := time.Since(healed); took > a.cfg.Timeouts.Session {
				t.Errorf("ready after %s", took)
			}
		}
		sendAnywhere(t, info, "alice", "2", "two", a)
		if got := texts(a.history(info)); got != "1:one 2:two" {
			t.Error(got)
		}
	})
}

// Only the way to the coordinator is blocked while the brokers with the data can be reached: the lease ends the
// reads, and the log fences the writes.
func TestHome_BlockedCoordinatorOnly(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		sendAnywhere(t, info, "alice", "1", "one", a)
		for _, key := range []kmsg.Key{kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetCommit} {
			a.link.Arm(kafkatest.Rule{Action: kafkatest.Swallow, Key: key.Int16(), Count: -1})
		}
		b := join(t, c, "b")
		m := sendAnywhere(t, info, "bob", "1", "of b", b)
		if m.Serial != 2 {
			t.Errorf("serial %d", m.Serial)
		}
		var no *domain.ShardNotOwnedError
		if _, err := a.ChatRoom(t.Context(), info.Shard, info.ID); !errors.As(err, &no) {
			t.Errorf("the old owner answers: %v", err)
		}
	})
}

// The coordinator does not know the member any more: locked at once, joined again.
func TestHome_UnknownMember(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		for _, e := range []*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration} {
			before := a.counts.Generations.Load()
			f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: e, Count: 2})
			eventually(t, "another generation", func() error {
				if a.counts.Generations.Load() == before {
					return errors.New("still the old one")
				}
				return nil
			})
			if f.Hits() == 0 {
				t.Fatal("the fault never bit")
			}
			sendAnywhere(t, info, "alice", e.Message, "text", a)
		}
	})
}

// While the group rebalances, the whole instance is locked (the seed), and says so.
func TestHome_RebalanceLocksEverything(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		hold := a.link.Arm(kafkatest.Rule{Action: kafkatest.HoldRequest, Key: kmsg.JoinGroup.Int16(), Count: 1, Delay: 2 * time.Second})
		a.mu.Lock()
		g := a.tenancy.gen
		a.mu.Unlock()
		g.Rejoin(errors.New("the test wants it"))
		time.Sleep(time.Second)
		if hold.Hits() == 0 {
			t.Fatal("no rebalance is under way")
		}
		for _, s := range a.Shards() {
			if s.State != domain.ShardLocked {
				t.Errorf("shard %d: %s", s.Shard, s.State)
			}
		}
		if rs := a.Ready(); len(rs) == 0 || rs[0].Shard != nil {
			t.Errorf("%+v", rs)
		}
		a.ready()
		sendAnywhere(t, info, "alice", "1", "one", a)
	})
}

// More instances than shards: a stable generation, spares idle and ready, and they take over.
func TestHome_MoreInstancesThanShards(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		var homes []*testHome
		for i := range 6 {
			homes = append(homes, join(t, c, fmt.Sprint("i", i)))
		}
		settled := func() (owned int) {
			for _, h := range homes {
				h.ready()
			}
			for _, h := range homes {
				owned += len(h.owns())
			}
			return owned
		}
		eventually(t, "all shards owned", func() error {
			if n := settled(); n != 4 {
				return fmt.Errorf("%d shards", n)
			}
			return nil
		})
		before := make([]int64, len(homes))
		for i, h := range homes {
			before[i] = h.counts.Generations.Load()
		}
		time.Sleep(5 * time.Minute)
		for i, h := range homes {
			if n := h.counts.Generations.Load(); n != before[i] {
				t.Errorf("instance %d had %d generations more in quiet times", i, n-before[i])
			}
		}
		victim := slices.IndexFunc(homes, func(h *testHome) bool { return len(h.owns()) > 0 })
		dead := homes[victim]
		homes = slices.Delete(homes, victim, victim+1)
		dead.link.Silence()
		time.Sleep(10 * time.Second)
		if n := settled(); n != 4 {
			t.Errorf("%d shards owned after one was lost", n)
		}
		dead.link.Heal()
	})
}

// The group is deleted while nobody runs: versions of ownership come from the log, so nobody is locked out.
func TestHome_GroupDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		sendAnywhere(t, info, "alice", "1", "one", a)
		a.end()
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.Dialer(c.Dial))
		if err != nil {
			t.Fatal(err)
		}
		req := kmsg.NewPtrDeleteGroupsRequest()
		req.Groups = []string{"chathome"}
		res, err := req.RequestWith(t.Context(), cl)
		if err != nil {
			t.Fatal(err)
		}
		if err := kerr.ErrorForCode(res.Groups[0].ErrorCode); err != nil {
			t.Fatalf("the group was not deleted: %v", err)
		}
		cl.Close()
		b := join(t, c, "b").ready()
		sendAnywhere(t, info, "alice", "2", "two", b)
		if got := texts(b.history(info)); got != "1:one 2:two" {
			t.Error(got)
		}
	})
}

// Kafka cannot be reached at the start: the process waits, not ready, and says why; then all is served.
func TestHome_StartsBeforeKafka(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		link := c.NewLink()
		link.Cut()
		a := startHome(t, c, testConfig(c, link, "a"), link)
		time.Sleep(time.Minute)
		if rs := a.Ready(); len(rs) == 0 {
			t.Error("ready without Kafka")
		}
		var no *domain.ShardNotOwnedError
		if _, err := a.ChatRoom(t.Context(), 0, a.DrawChatRoomID()); !errors.As(err, &no) {
			t.Errorf("%v", err)
		}
		link.Heal()
		a.ready()
		if n := len(a.owns()); n != 4 {
			t.Errorf("%d shards", n)
		}
	})
}

// It stops in every state within its budget (promise 12).
func TestHome_StopsInEveryState(t *testing.T) {
	for name, prepare := range map[string]func(c *kafkatest.Cluster, h *testHome){
		"just started":       func(*kafkatest.Cluster, *testHome) {},
		"without Kafka":      func(_ *kafkatest.Cluster, h *testHome) { h.link.Silence(); time.Sleep(time.Second) },
		"Kafka lost":         func(_ *kafkatest.Cluster, h *testHome) { h.ready(); h.link.Silence(); time.Sleep(time.Second) },
		"open":               func(_ *kafkatest.Cluster, h *testHome) { h.ready() },
		"lease lapsed":       func(_ *kafkatest.Cluster, h *testHome) { h.ready(); h.link.Silence(); time.Sleep(time.Minute) },
		"a parked JoinGroup": func(c *kafkatest.Cluster, h *testHome) { park(c, h, kmsg.JoinGroup) },
		"a parked SyncGroup": func(c *kafkatest.Cluster, h *testHome) { park(c, h, kmsg.SyncGroup) },
		"takeover stuck": func(_ *kafkatest.Cluster, h *testHome) {
			h.link.Arm(kafkatest.Rule{Action: kafkatest.Swallow, Key: kmsg.Produce.Int16(), Topic: messages, Count: -1})
			time.Sleep(3 * time.Second)
		},
		"loading stuck": func(_ *kafkatest.Cluster, h *testHome) {
			h.link.Arm(kafkatest.Rule{Action: kafkatest.Swallow, Key: kmsg.Fetch.Int16(), Topic: messages, Count: -1})
			time.Sleep(3 * time.Second)
		},
		"a batch under way": func(_ *kafkatest.Cluster, h *testHome) {
			info := h.ready().room("kitchen")
			h.link.Arm(kafkatest.Rule{Action: kafkatest.Swallow, Key: kmsg.Produce.Int16(), Topic: messages, Count: -1})
			go func() { _, _, _ = send(h, info, "alice", "1", "one") }()
			time.Sleep(100 * time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
				h := join(t, c, "a")
				prepare(c, h)
				began := time.Now()
				h.end()
				if took := time.Since(began); took > 8*time.Second {
					t.Errorf("stopped after %s", took)
				} else if name == "open" && took > 2*time.Second {
					t.Errorf("an idle instance stopped after %s", took)
				}
				h.link.Heal()
			})
		})
	}
}

func park(c *kafkatest.Cluster, h *testHome, key kmsg.Key) {
	h.ready()
	h.link.Arm(kafkatest.Rule{Action: kafkatest.Swallow, Key: key.Int16(), Count: -1})
	h.mu.Lock()
	g := h.tenancy.gen
	h.mu.Unlock()
	g.Rejoin(errors.New("the test wants it"))
	time.Sleep(500 * time.Millisecond)
	synctest.Wait()
}
