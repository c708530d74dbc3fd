package kafkasvc

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/kafkasvc/record"
)

// The log lost a room's creation, then the instance its local data, and the directory cannot be read: the owner opens, and
// refuses the room until it can name it. It never calls it nameless, nor another one than it was.
func TestHome_LostNameIsAskedForUntilTheDirectoryIsSure(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		var broken atomic.Bool
		fs := diskThat(&broken, syscall.EIO)
		a := join(t, c, "a", func(cfg *Config) { cfg.DataDir, cfg.StoreFS = "data", fs }).ready()
		info := a.room("kitchen")
		other := a.room("hall")
		for i := range 5 {
			sendAnywhere(t, info, "alice", fmt.Sprint("m", i+1), fmt.Sprint("t", i+1), a)
		}
		if err := c.DeleteRecords(messages, int32(info.Shard), 4); err != nil { // takeover 0, room 1, m1 at 2 (or later, beside the hall)
			t.Fatal(err)
		}
		var away []*kafkatest.Armed
		for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.Produce} {
			away = append(away, a.link.Arm(kafkatest.Rule{Action: kafkatest.CutBefore, Key: key.Int16(), Topic: "chathome.directory", Count: -1}))
		}
		broken.Store(true)
		text := strings.Repeat("x", 8000)
		for i := 0; len(a.owns()) == 4 && i < 4000; i++ {
			_, _, _ = send(a, other, "bob", fmt.Sprint("f", i), text)
		}
		broken.Store(false)
		eventually(t, "all shards open", func() error {
			if n := len(a.owns()); n != 4 {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})

		var busy *domain.OverloadedError
		for range 10 {
			if r, err := a.ChatRoom(t.Context(), info.Shard, info.ID); !errors.As(err, &busy) {
				t.Fatalf("at the gate: %v, %v", r, err)
			}
			if got, err := a.Directory().ChatRoom(t.Context(), info.ID); !errors.As(err, &busy) {
				t.Fatalf("the list: %+v, %v", got, err)
			}
			if got, dup, err := a.CreateChatRoom(t.Context(), info.ID, "kitchen"); !errors.As(err, &busy) {
				t.Fatalf("created again: %+v %t %v", got, dup, err)
			}
			time.Sleep(time.Second)
		}
		if n := len(a.owns()); n != 4 {
			t.Errorf("%d shards open: a room without a name is no fault of the store", n)
		}

		slow := kafkatest.Rule{Action: kafkatest.HoldAnswer, Key: kmsg.Fetch.Int16(), Topic: "chathome.directory", Count: -1, Delay: 3 * time.Second}
		a.link.Arm(slow)
		for _, rule := range away {
			rule.Stop()
		}
		whys := make(map[string]bool)
		eventually(t, "the name", func() error {
			r, err := a.ChatRoom(t.Context(), info.Shard, info.ID)
			if err == nil && r.Info() != info {
				t.Fatalf("the room is %+v, was %+v", r.Info(), info)
			}
			if errors.As(err, &busy) {
				whys[busy.Resource] = true
			}
			return err
		})
		if !whys["directory"] {
			t.Errorf("refused for %v: the view was never one that is being read", whys)
		}
		if got, dup, err := a.CreateChatRoom(t.Context(), info.ID, "kitchen"); err != nil || !dup || got != info {
			t.Errorf("a retry of the creation: %+v %t %v", got, dup, err)
		}
		if m := sendAnywhere(t, info, "alice", "m6", "t6", a); m.Serial != 6 {
			t.Errorf("serial %d", m.Serial)
		}
	})
}

// A room that nobody ever announced stays without a name, and works.
func TestHome_NameThatNobodyKnows(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		a := join(t, c, "a").ready()
		info := a.room("kitchen")
		a.end()
		id := uuid.New()
		shard, _ := a.ShardOf(id)
		end := domain.Offset(c.PartitionInfo(messages, int32(shard)).HighWatermark)
		first := domain.Message{Room: id, Serial: 3, User: "bob", ClientID: "1", Text: "orphan"}
		cl := stranger(t, c)
		defer cl.Close()
		put(t, cl, shard, record.AppendMessage(nil, end, &first))
		b := join(t, c, "b").ready()
		if h := b.history(domain.ChatRoomInfo{ID: id, Shard: shard}); len(h) != 1 || h[0].Text != "orphan" {
			t.Fatalf("history %s", texts(h))
		}
		if got, err := b.Directory().ChatRoom(t.Context(), id); err != nil || got.Name != "" || got.ID != id {
			t.Errorf("the list says %+v, %v", got, err)
		}
		if m := sendAnywhere(t, domain.ChatRoomInfo{ID: id, Shard: shard}, "bob", "2", "next", b); m.Serial != 4 {
			t.Errorf("serial %d", m.Serial)
		}
		if got, err := b.Directory().ChatRoom(t.Context(), info.ID); err != nil || got != info {
			t.Errorf("the other room is %+v, %v", got, err)
		}
	})
}
