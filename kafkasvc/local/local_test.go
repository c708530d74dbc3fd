package local_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a store on fs that is closed with the test.
func open(t testing.TB, fs vfs.FS) *local.Store {
	t.Helper()
	s, err := local.Open(local.Config{Dir: "data", FS: fs, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// log is a shard's log that is written with the rules of an owner.
type log struct {
	values [][]byte
	rooms  map[uuid.UUID]domain.Serial
}

func (l *log) at() domain.Offset { return domain.Offset(len(l.values)) }

func (l *log) add(value []byte) { l.values = append(l.values, value) }

func (l *log) room(id uuid.UUID, name string) {
	l.add(record.AppendChatRoom(nil, l.at(), &domain.ChatRoomInfo{ID: id, Name: name, CreatedAt: 1000}))
	if l.rooms == nil {
		l.rooms = map[uuid.UUID]domain.Serial{}
	}
}

func (l *log) message(room uuid.UUID, user, clientID, text string) domain.Message {
	l.rooms[room]++
	m := domain.Message{Room: room, Serial: l.rooms[room], User: user, ClientID: clientID, Text: text,
		SentAt: domain.Millis(1000 + len(l.values))}
	l.add(record.AppendMessage(nil, l.at(), &m))
	return m
}

// apply folds what the log holds beyond f's position.
func (l *log) apply(t testing.TB, f *local.Fold) {
	t.Helper()
	var v record.View
	for off := f.Position().Next; off < l.at(); off++ {
		if got := f.Apply(off, l.values[off], &v); got == local.Failed {
			t.Fatal(f.Err())
		}
	}
}

func roomID(n int) (id uuid.UUID) {
	id[0], id[14], id[15] = 7, byte(n>>8), byte(n)
	return id
}

func TestFold_ShowsWhatWasCommitted(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	sh := s.Shard(3)
	f := sh.NewFold(local.Position{})
	var l log
	room := roomID(1)
	l.room(room, "hall")
	var want []domain.Message
	for i := range 200 {
		want = append(want, l.message(room, "alice", fmt.Sprint(i), fmt.Sprintf("text %d", i)))
		l.apply(t, f)
		if i%7 == 0 {
			if err := f.Commit(nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Commit(nil); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p, err := sh.Position()
		if err != nil || p != f.Position() || p.Next != 201 || p.Hash != record.Hash(l.values[200]) {
			t.Fatalf("position %+v, want %+v, %v", p, f.Position(), err)
		}
		r, ok, err := sh.Room(room)
		if err != nil || !ok || r.Info.Name != "hall" || r.Info.Shard != 3 || r.Last != 200 || r.LastAt != want[199].SentAt {
			t.Fatalf("room %+v %v %v", r, ok, err)
		}
		page, err := sh.Read(room, domain.Range{Limit: 1000})
		if err != nil || fmt.Sprint(page.Messages) != fmt.Sprint(want) || page.HasNext || page.HasPrevious {
			t.Fatalf("page %v %v", page, err)
		}
		for _, w := range want {
			m, ok, err := sh.Find(room, w.User, w.ClientID)
			if err != nil || !ok || m != w {
				t.Fatalf("find %v: %v %v %v", w, m, ok, err)
			}
		}
		if _, ok, err := sh.Find(room, "alice", "200"); ok || err != nil {
			t.Fatal(ok, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, fs)
		sh = s.Shard(3)
	}
}
