package kafkasvc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

// stranger is a producer that is not chathome.
func stranger(t *testing.T, c *kafkatest.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.Addrs()...), kgo.Dialer(c.Dial), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func put(t *testing.T, cl *kgo.Client, shard domain.ShardID, values ...[]byte) {
	t.Helper()
	for _, v := range values {
		if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: messages, Partition: int32(shard), Value: v}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// Foreign transactions in the topic, also at its very end: nothing of them is shown, loading ends.
func TestHome_ForeignTransactions(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		sendAnywhere(t, info, "alice", "1", "one", a)
		tx := stranger(t, c, kgo.TransactionalID("foreign"))
		defer tx.Close()
		transact := func(end kgo.TransactionEndTry) {
			if err := tx.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			stray := domain.Message{Room: info.ID, Serial: 2, User: "mallory", ClientID: "1", Text: "stray"}
			put(t, tx, info.Shard, []byte("rubbish"), record.AppendMessage(nil, 3, &stray))
			if err := tx.EndTransaction(context.Background(), end); err != nil {
				t.Fatal(err)
			}
		}
		transact(kgo.TryCommit)
		sendAnywhere(t, info, "alice", "2", "two", a)
		transact(kgo.TryAbort)
		sendAnywhere(t, info, "alice", "3", "three", a)
		transact(kgo.TryAbort)
		a.end()
		b := join(t, c, "b").ready()
		if got := texts(b.history(info)); got != "1:one 2:two 3:three" {
			t.Error(got)
		}
		if seen := b.Stats().Records; seen["rubbish"] == 0 || seen["void"] == 0 {
			t.Errorf("rubbish %d, void %d: nothing was counted", seen["rubbish"], seen["void"])
		}
	})
}

// Records of other programs with keys that look right: what does not name its own offset is shown to
// nobody; a record of a kind to come is skipped and counted.
func TestHome_ForeignRecords(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		m := sendAnywhere(t, info, "alice", "1", "x", a)
		cl := stranger(t, c)
		defer cl.Close()
		for _, text := range []string{"x", "y"} {
			again := m
			again.Text, again.Serial = text, 2
			put(t, cl, info.Shard, record.AppendMessage(nil, 0, &again))
		}
		unknown := domain.Message{Room: uuid.New(), Serial: 1, User: "bob", ClientID: "1", Text: "nowhere"}
		put(t, cl, info.Shard, record.AppendMessage(nil, 1, &unknown), nil, []byte{0xff, 0xff, 0xff})
		for _, id := range []string{"b", "d"} {
			a.end()
			a = join(t, c, id).ready()
			if got := texts(a.history(info)); got != "1:x" {
				t.Errorf("%s: %s", id, got)
			}
			if retry, dup, err := send(a, info, "alice", "1", "x"); err != nil || !dup || retry != m {
				t.Errorf("%s: the retry got %+v %t %v", id, retry, dup, err)
			}
		}
	})
}

// An administrator deletes records: what is left is served, a cursor below it gets a typed
// error with the oldest position.
func TestHome_DeletedRecords(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		for i := range 20 {
			sendAnywhere(t, info, "alice", fmt.Sprint("m", i+1), fmt.Sprint("t", i+1), a)
		}
		room, err := a.ChatRoom(t.Context(), info.Shard, info.ID)
		if err != nil {
			t.Fatal(err)
		}
		old, err := room.CursorAt(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.DeleteRecords(messages, int32(info.Shard), 12); err != nil { // takeover 0, room 1, m1 at 2
			t.Fatal(err)
		}
		sendAnywhere(t, info, "alice", "m21", "t21", a) // an open instance goes on
		a.end()
		b := join(t, c, "b").ready()
		h := b.history(info)
		if len(h) != 11 || h[0].Serial != 11 || h[10].Serial != 21 {
			t.Fatalf("%d messages: %s", len(h), texts(h))
		}
		room, err = b.ChatRoom(t.Context(), info.Shard, info.ID)
		if err != nil {
			t.Fatal(err)
		}
		if room.Info().Name != "kitchen" {
			t.Errorf("the name is %q: its record is gone, but the directory has it", room.Info().Name)
		}
		var gone *domain.CursorOutOfRangeError
		if _, err := room.Resolve(t.Context(), old); !errors.As(err, &gone) {
			t.Fatalf("%v", err)
		}
		oldest, err := domain.ParseCursor(gone.Oldest)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := room.Resolve(t.Context(), oldest); err != nil || s != 10 {
			t.Errorf("the oldest position leads to %d, %v", s, err)
		}
		if c, err := room.CursorAt(t.Context(), 10); err != nil || c != oldest {
			t.Errorf("the position before the oldest message is %+v, %v", c, err)
		}
		if m := sendAnywhere(t, info, "alice", "m22", "t22", b); m.Serial != 22 {
			t.Errorf("serial %d", m.Serial)
		}
		// All of it is deleted, on every shard.
		for i := range 4 {
			if err := c.DeleteRecords(messages, int32(i), -1); err != nil {
				t.Fatal(err)
			}
		}
		b.end()
		d := join(t, c, "d").ready()
		if n := len(d.owns()); n != 4 {
			t.Errorf("%d shards open after all records were deleted", n)
		}
	})
}

// Both topics are deleted and created again while everything is stopped: local data of the other
// life are dropped, a cursor of it is refused.
func TestHome_TopicsRecreated(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		dir := t.TempDir()
		a := join(t, c, "a", func(cfg *Config) { cfg.DataDir = dir }).ready()
		info := a.room("kitchen")
		for i := range 30 {
			sendAnywhere(t, info, "alice", fmt.Sprint(i), "old", a)
		}
		room, err := a.ChatRoom(t.Context(), info.Shard, info.ID)
		if err != nil {
			t.Fatal(err)
		}
		cursor, err := room.CursorAt(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		home := a.Home()
		a.end()
		for _, topic := range []string{messages, "chathome.directory"} {
			if err := c.DeleteTopic(topic); err != nil {
				t.Fatal(err)
			}
		}
		a = join(t, c, "a", func(cfg *Config) { cfg.DataDir = dir }).ready()
		if a.Home() == home || a.Home() == (uuid.UUID{}) {
			t.Fatalf("the home id is %s, was %s", a.Home(), home)
		}
		var unknown *domain.UnknownChatRoomError
		if _, err := a.ChatRoom(t.Context(), info.Shard, info.ID); !errors.As(err, &unknown) {
			t.Errorf("a room of another life: %v", err)
		}
		if _, _, err := a.CreateChatRoom(t.Context(), info.ID, "kitchen"); err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			sendAnywhere(t, info, "alice", fmt.Sprint(i), "new", a)
		}
		room, err = a.ChatRoom(t.Context(), info.Shard, info.ID)
		if err != nil {
			t.Fatal(err)
		}
		var gone *domain.CursorOutOfRangeError
		if s, err := room.Resolve(t.Context(), cursor); !errors.As(err, &gone) {
			t.Errorf("a cursor of another life leads to %d, %v", s, err)
		}
	})
}

// The same while an instance serves.
func TestHome_TopicsRecreatedWhileServing(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		sendAnywhere(t, info, "alice", "1", "old", a)
		home := a.Home()
		for _, topic := range []string{messages, "chathome.directory"} {
			if err := c.DeleteTopic(topic); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "another life", func() error {
			if a.Home() == home {
				return errors.New("still the old one")
			}
			return nil
		})
		a.ready()
		if _, _, err := a.CreateChatRoom(t.Context(), info.ID, "kitchen"); err != nil {
			t.Fatal(err)
		}
		if m := sendAnywhere(t, info, "alice", "1", "new", a); m.Serial != 1 || m.Text != "new" {
			t.Errorf("%+v", m)
		}
	})
}

// The messages topic cannot be prepared at first in the new life: once it can, the instance is ready, and does not say
// for ever why it was not.
func TestHome_ReadyAfterPreparingFailed(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		home := a.Home()
		for _, topic := range []string{messages, "chathome.directory"} {
			if err := c.DeleteTopic(topic); err != nil {
				t.Fatal(err)
			}
		}
		f := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: messages, Err: kerr.PolicyViolation, Count: 3})
		eventually(t, "another life", func() error {
			if a.Home() == home {
				return errors.New("still the old one")
			}
			return nil
		})
		a.ready()
		if f.Hits() != 3 {
			t.Errorf("the fault bit %d times", f.Hits())
		}
	})
}

// An administrator adds partitions: the pinned count stays, rooms stay where they are, an alarm is raised.
func TestHome_PartitionsAdded(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		sendAnywhere(t, info, "alice", "1", "one", a)
		cl := stranger(t, c)
		defer cl.Close()
		if _, err := kadm.NewClient(cl).CreatePartitions(t.Context(), 3, messages); err != nil {
			t.Fatal(err)
		}
		eventually(t, "alarm", func() error {
			if _, ok := a.counts.Alarms.Load("partition count"); !ok {
				return errors.New("none")
			}
			return nil
		})
		if n := len(a.Shards()); n != 4 {
			t.Errorf("%d shards", n)
		}
		if m := sendAnywhere(t, info, "alice", "1", "one", a); m.Serial != 1 {
			t.Errorf("%+v", m)
		}
		if m := sendAnywhere(t, info, "alice", "2", "two", a); m.Serial != 2 {
			t.Errorf("%+v", m)
		}
		// Who starts now is told: the topic is not the one that the directory pins.
		b, err := New(testConfig(c, c.NewLink(), "b"))
		if err != nil {
			t.Fatal(err)
		}
		var refused *RefusedError
		if err := b.Run(t.Context()); !errors.As(err, &refused) || refused.Findings[0].Setting != "partitions" {
			t.Errorf("%v", err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A restart reads on from the local data, and a stop in the middle of loading leaves no hole.
func TestHome_RestartReadsOnlyWhatIsNew(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		dir := t.TempDir()
		keep := func(cfg *Config) { cfg.DataDir = dir; cfg.LoadBudget = 1 }
		a := join(t, c, "a", keep).ready()
		info := a.room("kitchen")
		for i := range 50 {
			sendAnywhere(t, info, "alice", fmt.Sprint("m", i), fmt.Sprint("m", i), a)
		}
		want := texts(a.history(info))
		a.end()
		a = join(t, c, "a", keep).ready()
		if n := a.Stats().Records["counted"]; n != 0 {
			t.Errorf("%d records were read again", n)
		}
		if got := texts(a.history(info)); got != want {
			t.Error(got)
		}
		a.end()
		// Another instance, with no local data, is stopped while it loads, again and again.
		dir = t.TempDir()
		for i := range 6 {
			b := join(t, c, "b", keep)
			slow := b.link.Arm(kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: kmsg.Fetch.Int16(), Topic: messages, Count: -1, Delay: 300 * time.Millisecond})
			time.Sleep(time.Duration(i) * 150 * time.Millisecond)
			b.end()
			slow.Stop()
		}
		b := join(t, c, "b", keep).ready()
		if got := texts(b.history(info)); got != want {
			t.Error(got)
		}
	})
}

// Two instances on one data directory: the second one refuses.
func TestHome_SecondInstanceOnOneDirectory(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		dir := t.TempDir()
		join(t, c, "a", func(cfg *Config) { cfg.DataDir = dir }).ready()
		cfg := testConfig(c, c.NewLink(), "b")
		cfg.DataDir = dir
		if _, err := New(cfg); !errors.Is(err, local.ErrInUse) {
			t.Errorf("%v", err)
		}
	})
}

// Loss or damage of the local data costs time, never data (promise 10): every file is damaged in turn.
func TestHome_DamagedLocalData(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		dir := t.TempDir()
		keep := func(cfg *Config) { cfg.DataDir = dir }
		a := join(t, c, "a", keep).ready()
		info := a.room("kitchen")
		for i := range 40 {
			sendAnywhere(t, info, "alice", fmt.Sprint("m", i), fmt.Sprint("m", i), a)
		}
		want := texts(a.history(info))
		a.end()
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		more, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range append(files, more...) {
			b, err := os.ReadFile(f)
			if err != nil || len(b) == 0 {
				continue // a directory, or nothing to damage
			}
			for _, damaged := range [][]byte{b[:len(b)/2], flipped(b)} {
				if err := os.WriteFile(f, damaged, 0o600); err != nil {
					t.Fatal(err)
				}
				a = join(t, c, "a", keep).ready()
				if got := texts(a.history(info)); got != want {
					t.Errorf("%s: %s", filepath.Base(f), got)
				}
				if m, dup, err := send(a, info, "alice", "m7", "m7"); err != nil || !dup || m.Serial != 8 {
					t.Errorf("%s: a retry got %+v %t %v", filepath.Base(f), m, dup, err)
				}
				a.end()
			}
		}
	})
}

// A table that cannot be read once, at the first, second, third … look at one: at the opening of the store, by the
// directory at the start, or later by shards. It costs the local data, never the start.
func TestHome_UnreadableTable(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		var looks, broken atomic.Int64
		fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileReadAt && strings.HasSuffix(op.Path, ".sst") && looks.Add(-1) == 0 {
				broken.Add(1)
				return syscall.EIO
			}
			return nil
		}))
		keep := func(cfg *Config) { cfg.DataDir, cfg.StoreFS = "data", fs }
		a := join(t, c, "a", keep).ready()
		info := a.room("kitchen")
		for i := range 40 {
			sendAnywhere(t, info, "alice", fmt.Sprint("m", i), fmt.Sprint("m", i), a)
		}
		want := texts(a.history(info))
		a.end()
		for n := range int64(30) {
			looks.Store(n + 1)
			a = join(t, c, "a", keep).ready()
			if got := texts(a.history(info)); got != want {
				t.Errorf("unreadable at look %d: %s", n+1, got)
			}
			a.end()
			join(t, c, "a", keep).ready().end()
		}
		if broken.Load() < 10 {
			t.Errorf("broken %d times", broken.Load())
		}
	})
}

// The disk is full: the process goes on, answers nothing wrong, says why it is not ready, and serves again when
// there is room.
func TestHome_DiskFull(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		var full atomic.Bool
		fs := diskThat(&full, syscall.ENOSPC)
		a := join(t, c, "a", func(cfg *Config) { cfg.DataDir, cfg.StoreFS = "data", fs }).ready()
		info := a.room("kitchen")
		sendAnywhere(t, info, "alice", "0", "m0", a)
		full.Store(true)
		text := strings.Repeat("x", 8000)
		stored := 1
		for i := range 4000 { // enough for the store to need the disk
			_, _, err := send(a, info, "alice", fmt.Sprint("f", i), text)
			if err != nil {
				break
			}
			stored++
		}
		eventually(t, "not ready", func() error {
			if len(a.Ready()) == 0 {
				return errors.New("ready")
			}
			return nil
		})
		time.Sleep(time.Minute)
		full.Store(false)
		a.ready()
		if m := sendAnywhere(t, info, "alice", "last", "last", a); int(m.Serial) < stored+1 {
			t.Errorf("serial %d after %d", m.Serial, stored)
		}
		if got, err := a.Directory().ChatRoom(t.Context(), info.ID); err != nil || got != info {
			t.Errorf("the directory says %+v, %v", got, err)
		}
		if m, dup, err := send(a, info, "alice", "0", "m0"); err != nil || !dup || m.Serial != 1 {
			t.Errorf("%+v %t %v", m, dup, err)
		}
	})
}

// diskThat is one in memory that answers every write with fault while failing is set.
func diskThat(failing *atomic.Bool, fault error) vfs.FS {
	return errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if failing.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return fault
		}
		return nil
	}))
}

func flipped(b []byte) []byte {
	b = append([]byte(nil), b...)
	for i := len(b) / 3; i < len(b); i += 1 + len(b)/3 {
		b[i] ^= 0x10
	}
	return b
}
