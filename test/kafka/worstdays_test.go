//go:build kafka

package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/kafkasvc/record"
	"github.com/chathome/chathome/test/kafka"
)

// What administrators, other programs and bad luck do to the log. Each test ends with the home serving, with what
// counts, and with a line in the log that says what happened. One broker is enough for these.
func TestWorstDays(t *testing.T) {
	c := start(t, kafka.Config{Properties: kafka.Quick()})
	for _, day := range []struct {
		name string
		test func(*testing.T, *kafka.Cluster)
	}{
		{"records deleted under an open instance", deletedWhileOpen},
		{"records deleted under a loading instance", deletedWhileLoading},
		{"both topics deleted", bothTopicsDeleted},
		{"the messages topic deleted and made again", messagesRecreated},
		{"partitions added", partitionsAdded},
		{"a foreign producer", foreignProducer},
		{"a foreign member that comes later", foreignMemberLater},
		{"a foreign member that was there before", foreignMemberBefore},
	} {
		t.Run(day.name, func(t *testing.T) { day.test(t, c) })
	}
}

func deleteRecords(t *testing.T, c *kafka.Cluster, topic string, s domain.ShardID, before domain.Offset) {
	t.Helper()
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: topic, Partition: int32(s), At: int64(before)})
	res, err := c.Admin.DeleteRecords(within(t, 10*time.Second), offsets)
	if err == nil {
		err = res.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fill sends n messages, "text 1" and so on.
func fill(t *testing.T, room domain.ChatRoomInfo, n int, ins ...*instance) (all []domain.Message) {
	t.Helper()
	for i := range n {
		all = append(all, sends(t, room, "alice", fmt.Sprint(i+1), fmt.Sprint("text ", i+1), ins...))
	}
	return all
}

// oldest waits until the room begins with a serial, and checks that an older cursor is told so.
func oldest(t *testing.T, in *instance, room domain.ChatRoomInfo, first domain.Serial, old domain.Cursor) {
	t.Helper()
	got := history(t, room, in)
	gapless(t, got, first)
	r, err := in.ChatRoom(t.Context(), room.Shard, room.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Resolve(t.Context(), old)
	if e, ok := errors.AsType[*domain.CursorOutOfRangeError](err); !ok || e.Oldest == "" {
		t.Errorf("a cursor of what was deleted: %v", err)
	}
}

func cursorAt(t *testing.T, in *instance, room domain.ChatRoomInfo, s domain.Serial) domain.Cursor {
	t.Helper()
	r, err := in.ChatRoom(t.Context(), room.Shard, room.ID)
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.CursorAt(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func deletedWhileOpen(t *testing.T, c *kafka.Cluster) {
	p := prefix()
	messages, _ := topics(p)
	a := join(t, c, p, "a").ready()
	room := a.create(0, "kitchen")
	fill(t, room, 20, a)
	old := cursorAt(t, a, room, 5)
	w := write(t, a.create(0, "hall"), "bob", a)
	w.goesOn(10)
	deleteRecords(t, c, messages, 0, 12) // a takeover, the room, and ten messages
	w.goesOn(10)
	if got := history(t, room, a); len(got) != 20 {
		t.Errorf("an open instance shows %d messages, want all 20 until the next assignment", len(got))
	}
	evict(t, c, p)
	a.says("level=WARN", "local data dropped; loading from the log's start", "the log's start has moved")
	w.goesOn(10)
	w.end()
	oldest(t, a, room, 11, old)
	if got := history(t, room, a); len(got) != 10 || got[0].Text != "text 11" {
		t.Errorf("%d messages are left", len(got))
	}
	if m := sends(t, room, "alice", "20", "text 20", a); m.Serial != 20 {
		t.Errorf("a retry got serial %d", m.Serial)
	}
	if m := sends(t, room, "alice", "21", "text 21", a); m.Serial != 21 {
		t.Errorf("the next serial is %d", m.Serial)
	}
	w.whole(a)
	agree(t, a, room, w.room)
}

func deletedWhileLoading(t *testing.T, c *kafka.Cluster) {
	p := prefix()
	messages, _ := topics(p)
	a := join(t, c, p, "a").ready()
	room := a.create(0, "kitchen")
	large := strings.Repeat("x", 8000)
	for i := range 400 { // 3 MB: several answers to read
		sends(t, room, "alice", fmt.Sprint(i+1), fmt.Sprint(i+1, " ", large), a)
	}
	old := cursorAt(t, a, room, 5)
	a.end()
	b := newborn(t, c, p, "b")
	slow := b.link.Arm(kafkatest.Rule{Action: kafkatest.HoldRequest, Key: kmsg.Fetch.Int16(), Topic: messages, Partitions: []int32{0}, Count: -1, Delay: 700 * time.Millisecond})
	b.run()
	eventually(t, 60*time.Second, "it loads", func() error {
		if no := b.Shards(); len(no) == 0 || no[0].NotOwned == nil || no[0].NotOwned.State != domain.ShardLoading || slow.Hits() == 0 {
			return errors.New("not yet")
		}
		return nil
	})
	deleteRecords(t, c, messages, 0, 302) // a takeover, the room, and 300 messages
	slow.Stop()
	b.ready()
	b.says("level=WARN", "loading starts over", "out of range")
	oldest(t, b, room, 301, old)
	if m := sends(t, room, "alice", "401", "one more", b); m.Serial != 401 {
		t.Errorf("the next serial is %d", m.Serial)
	}
	agree(t, b, room)
}

func bothTopicsDeleted(t *testing.T, c *kafka.Cluster) {
	p := prefix()
	messages, directory := topics(p)
	a, b := join(t, c, p, "a").ready(), join(t, c, p, "b").ready()
	a.ready()
	rooms := []domain.ChatRoomInfo{}
	for s := range domain.ShardID(4) {
		for _, in := range []*instance{a, b} {
			if in.opens(s)() == nil {
				rooms = append(rooms, in.create(s, fmt.Sprint("room ", s)))
				break
			}
		}
	}
	w := write(t, rooms[0], "bob", a, b)
	w.goesOn(5)
	home, before := a.Home(), len(w.all())
	drop(t, c, messages, directory)
	for _, in := range []*instance{a, b} {
		eventually(t, 60*time.Second, in.cfg.InstanceID+" lives in the new life", func() error {
			if in.Home() == home {
				return errors.New("the old one")
			}
			return in.notReady()
		})
	}
	if a.Home() != b.Home() {
		t.Errorf("two lives: %s and %s", a.Home(), b.Home())
	}
	a.says("level=ERROR", "the topics were deleted and created again; local data are dropped")
	b.says("level=ERROR", "the topics were deleted and created again; local data are dropped")
	if list, _, err := a.Directory().ChatRooms(within(t, 5*time.Second), 0, 10); err != nil || len(list) != 0 {
		t.Errorf("rooms of the old life: %v, %v", list, err)
	}
	// Who goes on with a room of the old life is told that there is none, and nothing of it is stored.
	for _, in := range []*instance{a, b} {
		if _, err := in.Directory().ChatRoom(within(t, 5*time.Second), rooms[0].ID); !is[*domain.UnknownChatRoomError](err) {
			t.Errorf("a room of the old life: %v", err)
		}
	}
	if n := len(w.all()); n > before+50 {
		t.Errorf("%d messages were stored into a room that is gone", n-before)
	}
	w.gone.Store(true)
	w.end()
	for _, in := range []*instance{a, b} {
		if in.opens(1)() == nil {
			info := in.create(1, "new")
			fill(t, info, 3, in)
			gapless(t, history(t, info, in), 1)
		}
	}
}

func messagesRecreated(t *testing.T, c *kafka.Cluster) {
	p := prefix()
	messages, _ := topics(p)
	a := join(t, c, p, "a").ready()
	room := a.create(0, "kitchen")
	fill(t, room, 20, a)
	evict(t, c, p)
	a.says("shard loaded", "shard=0", "version=22") // a version that the new log does not reach
	a.ready()
	drop(t, c, messages)
	// Who writes now gets an answer in time, and not that it is stored.
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	r, err := a.ChatRoom(ctx, room.Shard, room.ID)
	if err == nil {
		_, _, err = r.Send(ctx, domain.Draft{User: "alice", ClientID: "lost", Text: "lost"})
	}
	if err == nil {
		t.Error("stored in a topic that is not there")
	}
	eventually(t, 20*time.Second, "made again", func() error {
		_, err := c.Admin.CreateTopic(within(t, 5*time.Second), 4, 1, nil, messages)
		return err
	})
	set(t, c, messages, "retention.ms", "-1", "message.timestamp.type", "LogAppendTime")
	other := a.create(0, "after") // a write notices
	fill(t, other, 3, a)
	if !a.alarmed("truncated") && !a.alarmed("shard went back") {
		t.Errorf("no alarm, only %v", a.alarms)
	}
	a.says("level=ERROR", "shard locked", "the log was truncated or replaced; loading it anew")
	a.ready()
	gapless(t, history(t, other, a), 1)
	// The records are gone, and nobody says otherwise: the room is still listed, and has no messages here.
	if _, err := a.history(room); !is[*domain.UnknownChatRoomError](err) {
		t.Errorf("the room of the old log: %v", err)
	}
	a.says("level=ERROR", "shard went back")
	agree(t, a, other)
}

func partitionsAdded(t *testing.T, c *kafka.Cluster) {
	p := prefix()
	messages, _ := topics(p)
	a, b := join(t, c, p, "a").ready(), join(t, c, p, "b").ready()
	a.ready()
	var w *writer
	for _, in := range []*instance{a, b} {
		if in.opens(0)() == nil {
			w = write(t, in.create(0, "kitchen"), "bob", a, b)
			break
		}
	}
	w.goesOn(5)
	res, err := c.Admin.UpdatePartitions(within(t, 10*time.Second), 7, messages)
	if err == nil {
		err = res[messages].Err
	}
	if err != nil {
		t.Fatal(err)
	}
	a.says("level=ERROR", "the messages topic has another number of partitions than the directory pins")
	evict(t, c, p) // a new distribution does not see them either
	w.goesOn(20)
	a.ready()
	b.ready()
	w.end()
	owners := 0
	for _, in := range []*instance{a, b} {
		for s := range domain.ShardID(4) {
			if in.opens(s)() == nil {
				owners++
			}
		}
		if n := len(in.Shards()); n != 4 {
			t.Errorf("%d shards, pinned are 4", n)
		}
	}
	if owners != 4 {
		t.Errorf("%d owners of 4 shards", owners)
	}
	if !a.alarmed("partition count") {
		t.Errorf("no alarm, only %v", a.alarms)
	}
	w.whole(a, b)
}

func foreignProducer(t *testing.T, c *kafka.Cluster) {
	p := prefix()
	messages, _ := topics(p)
	a := join(t, c, p, "a").ready()
	room := a.create(0, "kitchen")
	w := write(t, room, "bob", a)
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	stray := domain.Message{Room: room.ID, Serial: 2, User: "mallory", ClientID: "1", Text: "stray " + strings.Repeat("y", 5000)}
	put := func(cl *kgo.Client) {
		var all []*kgo.Record
		for _, v := range [][]byte{[]byte(strings.Repeat("rubbish ", 500)), nil, record.AppendMessage(nil, 3, &stray), record.AppendMessage(nil, 0, &stray), {0xff, 0xff}} {
			all = append(all, &kgo.Record{Topic: messages, Partition: 0, Key: []byte(room.ID.String()), Value: v})
		}
		if err := cl.ProduceSync(within(t, 20*time.Second), all...).FirstErr(); err != nil {
			t.Error(err)
		}
	}
	for name, codec := range codecs {
		for _, transactional := range []bool{false, true} {
			opts := []kgo.Opt{kgo.SeedBrokers(c.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codec)}
			if transactional {
				opts = append(opts, kgo.TransactionalID(p+name))
			}
			cl, err := kgo.NewClient(opts...)
			if err != nil {
				t.Fatal(err)
			}
			if !transactional {
				put(cl)
				cl.Close()
				continue
			}
			for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
				if err := cl.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				put(cl)
				if err := cl.EndTransaction(within(t, 20*time.Second), end); err != nil {
					t.Fatal(err)
				}
			}
			cl.Close()
		}
		w.goesOn(3)
	}
	// One transaction stays open, and the log ends with its records: nothing may wait for it.
	hanging, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(p+"hanging"), kgo.TransactionTimeout(5*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer hanging.Close()
	if err := hanging.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	put(hanging)
	w.goesOn(5)
	w.end()
	put(hanging)
	w.whole(a)
	a.says("level=INFO", "batch landed elsewhere; gap read", "fenced=false", "cut=false")
	if len(a.alarms) > 0 {
		t.Errorf("alarms %v", a.alarms)
	}
	evict(t, c, p)
	eventually(t, 30*time.Second, "open again", func() error {
		if len(a.log.with("shard loaded", "shard=0")) < 2 {
			return errors.New("not yet")
		}
		return a.notReady()
	})
	w.whole(a)
	a.end()
	b := join(t, c, p, "b").ready()
	b.says("level=WARN", "the log holds records that this program does not know", "shard=0")
	w.whole(b)
}

// strangers is a group balancer that gives nothing to anybody.
type strangers struct{ name string }

func (s strangers) ProtocolName() string      { return s.name }
func (s strangers) UserData() ([]byte, error) { return []byte("hello"), nil }
func (s strangers) AssignGroups([]kafkago.GroupMember, []kafkago.Partition) kafkago.GroupMemberAssignments {
	return kafkago.GroupMemberAssignments{}
}

// stranger is a member of the group that is none of chathome's. It ends with the function that it returns.
func stranger(t *testing.T, c *kafka.Cluster, group, topic, protocol string) (end func(), joined <-chan struct{}) {
	t.Helper()
	g, err := kafkago.NewConsumerGroup(kafkago.ConsumerGroupConfig{
		ID: group, Brokers: c.Addrs(), Topics: []string{topic}, GroupBalancers: []kafkago.GroupBalancer{strangers{protocol}},
		HeartbeatInterval: 200 * time.Millisecond, SessionTimeout: 6 * time.Second, RebalanceTimeout: 4 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done, in := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if _, err := g.Next(ctx); err == nil {
				select {
				case in <- struct{}{}:
				default:
				}
			}
		}
	}()
	ended := false
	end = func() {
		if !ended {
			ended = true
			cancel()
			<-done
			_ = g.Close()
		}
	}
	t.Cleanup(end)
	return end, in
}

func foreignMemberLater(t *testing.T, c *kafka.Cluster) {
	p := prefix()
	messages, _ := topics(p)
	a := join(t, c, p, "a").ready()
	room := a.create(0, "kitchen")
	w := write(t, room, "bob", a)
	w.goesOn(5)
	end, joined := stranger(t, c, p, messages, "chathome-1")
	select {
	case <-joined:
	case <-time.After(30 * time.Second):
		t.Fatal("the stranger was not let in")
	}
	a.says("level=ERROR", "the group is not as it should be", "what=FOREIGN_MEMBER")
	w.goesOn(20)
	a.ready()
	for s := range domain.ShardID(4) {
		if err := a.opens(s)(); err != nil {
			t.Errorf("shard %d: %v", s, err)
		}
	}
	end()
	w.goesOn(20)
	w.end()
	w.whole(a)
}

func foreignMemberBefore(t *testing.T, c *kafka.Cluster) {
	p := prefix()
	messages, _ := topics(p)
	if _, err := c.Admin.CreateTopic(within(t, 10*time.Second), 4, 1, nil, messages); err != nil {
		t.Fatal(err)
	}
	set(t, c, messages, "retention.ms", "-1")
	end, joined := stranger(t, c, p, messages, "range")
	select {
	case <-joined:
	case <-time.After(30 * time.Second):
		t.Fatal("the stranger was not let in")
	}
	a := join(t, c, p, "a")
	a.says("level=WARN", "cannot join the group", "has members of another program: choose another group id, or stop them")
	time.Sleep(3 * time.Second)
	if n := len(a.log.with("cannot join the group")); n > 6 {
		t.Errorf("%d lines in a few seconds", n)
	}
	end()
	a.ready()
	w := write(t, a.create(0, "kitchen"), "bob", a)
	w.goesOn(5)
	w.end()
	w.whole(a)
	if slices.Contains(a.alarms, "truncated") {
		t.Errorf("alarms %v", a.alarms)
	}
}
