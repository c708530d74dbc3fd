package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/membership"
	"github.com/chathome/chathome/kafkasvc/record"
	"github.com/chathome/chathome/kafkasvc/transfer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func bubble(t *testing.T, f func(t *testing.T, c *kafkatest.Cluster)) {
	bubbletest.Test(t, func(t *testing.T) { f(t, kafkatest.Start(t)) })
}

func config(c *kafkatest.Cluster, link *kafkatest.Link, prefix string) kafkasvc.Config {
	epoch := time.Now()
	return kafkasvc.Config{
		Brokers: c.Addrs(), Dial: link.Dial, Shards: 4, TopicPrefix: prefix, InstanceID: "i", DataDir: local.InMemory, SingleBroker: true,
		Timeouts: membership.DefaultTimeouts(), Clock: func() time.Duration { return time.Since(epoch) + time.Hour },
	}
}

// serve runs an instance on a home until end.
func serve(t *testing.T, c *kafkatest.Cluster, prefix string) (h *kafkasvc.Home, end func()) {
	t.Helper()
	h, err := kafkasvc.New(config(c, c.NewLink(), prefix))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- errors.Join(h.Run(ctx), h.Close()) }()
	for range 3000 {
		if len(h.Ready()) == 0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if rs := h.Ready(); len(rs) > 0 {
		t.Fatalf("not ready: %+v", rs)
	}
	return h, func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func send(t *testing.T, h *kafkasvc.Home, room domain.ChatRoomInfo, id, text string) (m domain.Message, duplicate bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, err := h.ChatRoom(ctx, room.Shard, room.ID)
	if err == nil {
		m, duplicate, err = r.Send(ctx, domain.Draft{User: "alice", ClientID: id, Text: text})
	}
	if err != nil {
		t.Fatal(err)
	}
	return m, duplicate
}

// fill makes a home with rooms on all shards. Its texts are not easy.
func fill(t *testing.T, c *kafkatest.Cluster, prefix string) []domain.ChatRoomInfo {
	t.Helper()
	h, end := serve(t, c, prefix)
	defer end()
	var rooms []domain.ChatRoomInfo
	for i := range 8 {
		room, _, err := h.CreateChatRoom(t.Context(), h.DrawChatRoomID(), fmt.Sprint("room \"", i, "\" <ü>"))
		if err != nil {
			t.Fatal(err)
		}
		rooms = append(rooms, room)
		time.Sleep(7 * time.Millisecond)
	}
	for i := range 40 {
		for _, r := range rooms[1:] { // one stays empty
			send(t, h, r, fmt.Sprint("m", i), fmt.Sprint("text ", i, " <&> \u2028 \"\\ \t\n 𝄞"))
		}
		time.Sleep(11 * time.Millisecond)
	}
	return rooms
}

func export(t *testing.T, c *kafkatest.Cluster, prefix string) string {
	t.Helper()
	topics := kafkasvc.OpenTopics(config(c, c.NewLink(), prefix))
	defer topics.Close()
	var out bytes.Buffer
	origin, progress, err := transfer.Export(t.Context(), topics, &out, transfer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(origin.Upto) != origin.Shards || progress.Done != progress.Total || int64(strings.Count(out.String(), "\n")) != progress.Rooms+progress.Messages+2 {
		t.Errorf("export says %+v %+v of\n%s", origin, progress, out.String())
	}
	return out.String()
}

func load(t *testing.T, c *kafkatest.Cluster, link *kafkatest.Link, prefix string, from io.Reader, shards int) error {
	t.Helper()
	topics := kafkasvc.OpenTopics(config(c, link, prefix))
	defer topics.Close()
	_, _, err := transfer.Import(t.Context(), topics, transfer.Source{Reader: from, Shards: shards}, transfer.Options{})
	return err
}

// body is an export without its first line, which names the home and offsets.
func body(file string) []string {
	all := strings.SplitAfter(file, "\n")
	return all[1:]
}

func sorted(lines []string) []string {
	lines = slices.Clone(lines)
	slices.Sort(lines)
	return lines
}

// A home that was exported and imported is the same home in everything but offsets, and so is its export.
func TestTransfer_BringsEverythingOver(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		rooms := fill(t, c, "old")
		file := export(t, c, "old")
		if n := strings.Count(file, `{"message"`); n != 7*40 {
			t.Fatalf("%d messages", n)
		}
		for shards, same := range map[int]bool{4: true, 7: false, 1: false} {
			prefix := fmt.Sprint("new", shards)
			if err := load(t, c, c.NewLink(), prefix, strings.NewReader(file), shards); err != nil {
				t.Fatal(err)
			}
			again := export(t, c, prefix)
			if same && !slices.Equal(body(again), body(file)) || !slices.Equal(sorted(body(again)), sorted(body(file))) {
				t.Errorf("%d shards: the second export differs:\n%s\n%s", shards, file, again)
			}
		}

		old, end := serve(t, c, "old")
		defer end()
		now, endNow := serve(t, c, "new7")
		defer endNow()
		list := func(h *kafkasvc.Home) (names []string) {
			rooms, _, err := h.Directory().ChatRooms(t.Context(), 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rooms {
				names = append(names, fmt.Sprint(r.Serial, r.Info.ID, r.Info.Name, r.Info.CreatedAt))
			}
			return names
		}
		if a, b := list(old), list(now); !slices.Equal(a, b) || len(a) != 8 {
			t.Errorf("the room lists differ:\n%v\n%v", a, b)
		}
		history := func(h *kafkasvc.Home, id uuid.UUID) []domain.Message {
			s, _ := h.ShardOf(id)
			r, err := h.ChatRoom(t.Context(), s, id)
			if err != nil {
				t.Fatal(err)
			}
			p, err := r.Messages(t.Context(), domain.Range{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			return p.Messages
		}
		for _, r := range rooms {
			if a, b := history(old, r.ID), history(now, r.ID); !slices.Equal(a, b) {
				t.Errorf("%s differs: %d and %d messages", r.Name, len(a), len(b))
			}
		}
		r := rooms[3]
		r.Shard, _ = now.ShardOf(r.ID)
		if m, dup := send(t, now, r, "m7", "text 7 <&> \u2028 \"\\ \t\n 𝄞"); !dup || m.Serial != 8 {
			t.Errorf("a retry of a message of before: %+v %v", m, dup)
		}
		if m, dup := send(t, now, r, "new", "goes on"); dup || m.Serial != 41 {
			t.Errorf("a new message: %+v %v", m, dup)
		}
		if records := now.Stats().Records; records["void"]+records["skipped"]+records["ahead"]+records["orphan"] != 0 {
			t.Errorf("the filled log is not healthy: %v", records)
		}
	})
}

// An import may break off anywhere and be repeated; answers get lost meanwhile.
func TestImport_GoesOnWhereItBrokeOff(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		fill(t, c, "old")
		file := export(t, c, "old")
		link := c.NewLink()
		link.Arm(kafkatest.Rule{Action: kafkatest.LoseAnswer, Key: kmsg.Produce.Int16(), Count: -1, Every: 2})
		link.Arm(kafkatest.Rule{Action: kafkatest.CutBefore, Key: kmsg.Fetch.Int16(), Count: -1, Every: 3})
		for _, part := range []int{1, 3, 2} {
			cut := file[:len(file)*part/4]
			var bad *transfer.FormatError
			if err := load(t, c, link, "new", strings.NewReader(cut), 4); !errors.As(err, &bad) || !strings.Contains(err.Error(), "cut short") {
				t.Fatalf("a file that is cut short: %v", err)
			}
		}
		for range 2 { // the second time nothing is left to do
			if err := load(t, c, link, "new", strings.NewReader(file), 4); err != nil {
				t.Fatal(err)
			}
			if again := export(t, c, "new"); !slices.Equal(body(again), body(file)) {
				t.Errorf("the second export differs:\n%s\n%s", file, again)
			}
		}
		changed := strings.Replace(file, "text 39 ", "text XX ", 1)
		var different *transfer.DifferentError
		if err := load(t, c, link, "new", strings.NewReader(changed), 4); !errors.As(err, &different) {
			t.Errorf("another file with the same head: %v", err)
		}
	})
}

func TestImport_RefusesAHomeThatIsNotEmpty(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		fill(t, c, "old")
		file := export(t, c, "old")
		_, end := serve(t, c, "opened") // was opened once, and never used
		end()
		if err := load(t, c, c.NewLink(), "opened", strings.NewReader(file), 4); err != nil {
			t.Errorf("a home that nobody used: %v", err)
		}
		h, end := serve(t, c, "used")
		if _, _, err := h.CreateChatRoom(t.Context(), h.DrawChatRoomID(), "kitchen"); err != nil {
			t.Fatal(err)
		}
		end()
		other := export(t, c, "used")
		for prefix, file := range map[string]string{"old": file, "used": file, "opened": other} {
			before := export(t, c, prefix)
			var full *transfer.NotEmptyError
			if err := load(t, c, c.NewLink(), prefix, strings.NewReader(file), 4); !errors.As(err, &full) {
				t.Errorf("%s: %v", prefix, err)
			}
			if after := export(t, c, prefix); after != before {
				t.Errorf("%s was changed:\n%s\n%s", prefix, before, after)
			}
		}
	})
}

// meanwhile calls f when half of the text was read.
type meanwhile struct {
	text string
	at   int
	f    func()
}

func (m *meanwhile) Read(p []byte) (int, error) {
	if m.at >= len(m.text)/2 && m.f != nil {
		m.f()
		m.f = nil
	}
	n := copy(p, m.text[m.at:min(len(m.text), m.at+1000)])
	if m.at += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func TestImport_NoticesWhoWritesBesideIt(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		fill(t, c, "old")
		file := export(t, c, "old")
		from := &meanwhile{text: file, f: func() {
			_, end := serve(t, c, "new")
			end()
		}}
		if err := load(t, c, c.NewLink(), "new", from, 4); !errors.Is(err, transfer.ErrBusy) {
			t.Errorf("an instance took over: %v", err)
		}
		if err := load(t, c, c.NewLink(), "new", strings.NewReader(file), 4); err != nil {
			t.Errorf("after it stored nothing and went: %v", err)
		}
		if again := export(t, c, "new"); !slices.Equal(body(again), body(file)) {
			t.Error("the second export differs")
		}
	})
}

// What an owner of a damaged log serves is what is exported.
func TestExport_JudgesAsOwnersDo(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		rooms := fill(t, c, "old")
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.Dialer(c.Dial), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		put := func(r domain.ChatRoomInfo, serial domain.Serial, id string, counts bool) {
			end := c.PartitionInfo("old.messages", int32(r.Shard)).HighWatermark
			if !counts {
				end += 7
			}
			m := domain.Message{Room: r.ID, Serial: serial, User: "alice", ClientID: id, Text: "odd " + id}
			rec := &kgo.Record{Topic: "old.messages", Partition: int32(r.Shard), Value: record.AppendMessage(nil, domain.Offset(end), &m)}
			if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		put(rooms[1], 41, "void", false)
		put(rooms[1], 5, "again", true)   // a serial that is there
		put(rooms[1], 50, "ahead", true)  // some are missing before it
		put(rooms[1], 51, "m3", true)     // a client id that is there
		put(rooms[1], 52, "behind", true) // all is well again
		lost := domain.ChatRoomInfo{ID: uuid.New(), Name: "", Shard: 0}
		lost.Shard = domain.ShardOf(lost.ID, 4)
		put(lost, 3, "orphan", true)
		head := c.PartitionInfo("old.messages", int32(rooms[2].Shard)).HighWatermark / 2
		if err := c.DeleteRecords("old.messages", int32(rooms[2].Shard), head); err != nil {
			t.Fatal(err)
		}
		file := export(t, c, "old")
		if err := load(t, c, c.NewLink(), "new", strings.NewReader(file), 4); err != nil {
			t.Fatal(err)
		}
		old, end := serve(t, c, "old")
		defer end()
		now, endNow := serve(t, c, "new")
		defer endNow()
		for _, r := range append(rooms, lost) {
			var got [2]string
			for i, h := range []*kafkasvc.Home{old, now} {
				room, err := h.ChatRoom(t.Context(), r.Shard, r.ID)
				if err != nil {
					got[i] = err.Error()
					continue
				}
				p, err := room.Messages(t.Context(), domain.Range{Limit: 1000})
				if err != nil {
					t.Fatal(err)
				}
				got[i] = fmt.Sprintf("%s %v", room.Info().Name, p.Messages)
			}
			unknown := strings.Contains(got[0], "no chat room") // its creation was deleted and it had no message after that: an empty room now
			if got[0] != got[1] && !unknown {
				t.Errorf("%s:\n%s\n%s", r.Name, got[0], got[1])
			}
		}
	})
}

func TestExport_SaysThatThereIsNone(t *testing.T) {
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		topics := kafkasvc.OpenTopics(config(c, c.NewLink(), "nowhere"))
		defer topics.Close()
		if _, _, err := transfer.Export(t.Context(), topics, io.Discard, transfer.Options{}); !errors.Is(err, transfer.ErrNoHome) {
			t.Error(err)
		}
	})
}

// A file that is no export is refused with the number of the line, and nothing of that line is written.
func TestImport_NamesTheLineThatIsWrong(t *testing.T) {
	const (
		head = `{"export":{"format":1,"home":"7bd3e4a1-8c56-4a5b-9a6f-0e9a2d1c3b4f","shards":4,"upto":[0,0,0,0]}}` + "\n"
		room = `{"room":{"id":"0b8f6e0a-5f0e-4f5e-9a45-0b8d3c6f7a11","name":"kitchen","createdAt":1}}` + "\n"
		one  = `{"message":{"room":"0b8f6e0a-5f0e-4f5e-9a45-0b8d3c6f7a11","serial":1,"user":"alice","clientId":"1","text":"hi","sentAt":1}}` + "\n"
	)
	bubble(t, func(t *testing.T, c *kafkatest.Cluster) {
		for i, tc := range []struct {
			why, file string
			line      int64
		}{
			{"nothing", "", 1},
			{"no head", room, 1},
			{"a later format", strings.Replace(head, `"format":1`, `"format":2`, 1), 1},
			{"two heads", head + head, 2},
			{"no JSON", head + room + "hello\n", 3},
			{"an unknown kind", head + `{"poll":{}}` + "\n", 2},
			{"two at once", head + strings.Replace(room, `}}`, `},"end":{"rooms":0,"messages":0}}`, 1), 2},
			{"a message before its room", head + one, 2},
			{"a room twice", head + room + room, 3},
			{"a serial twice", head + room + one + one, 4},
			{"a text that is too long", head + room + strings.Replace(one, "hi", strings.Repeat("x", 70_000), 1), 3},
			{"a line without end", head + room + strings.Repeat("x", 2<<20), 3},
			{"cut within a line", head + room + one[:30], 3},
			{"cut between lines", head + room + one, 4},
			{"a lost message", head + room + `{"end":{"rooms":1,"messages":1}}` + "\n", 3},
		} {
			err := load(t, c, c.NewLink(), fmt.Sprint("p", i), strings.NewReader(tc.file), 2)
			var bad *transfer.FormatError
			if !errors.As(err, &bad) || bad.Line != tc.line {
				t.Errorf("%s: %v, want line %d", tc.why, err, tc.line)
			}
		}
	})
}
