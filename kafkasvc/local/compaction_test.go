package local

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
)

// While a shard loads, tables pile up uncompacted, up to a bound; when it has loaded, they are compacted.
func TestLoading_CompactsAfterwards(t *testing.T) {
	s, err := Open(Config{Dir: "data", FS: vfs.NewMem(), MemTableBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sh := s.Shard(3)
	f := sh.NewFold(Position{})
	rooms := [8]uuid.UUID{{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}}
	var v record.View
	next := domain.Offset(0)
	apply := func(value []byte) {
		if got := f.Apply(next, value, &v); got != Counted {
			t.Fatal(got, f.Err())
		}
		next++
	}
	for _, id := range rooms {
		apply(record.AppendChatRoom(nil, next, &domain.ChatRoomInfo{ID: id}))
	}
	serial := domain.Serial(0)
	fill := func(layers int) {
		for range layers {
			for range 20 {
				serial++
				for _, id := range rooms {
					apply(record.AppendMessage(nil, next, &domain.Message{Room: id, Serial: serial, User: "u", ClientID: fmt.Sprint(serial), Text: "text"}))
				}
			}
			if err := f.Commit(nil); err != nil {
				t.Fatal(err)
			}
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	waiting := func() int32 { return s.db.Metrics().Levels[0].Sublevels }
	compacted := func() int64 { return s.db.Metrics().Compact.Count }

	done := sh.Loading()
	other := sh.Loading()
	fill(tablesWaiting - 4)
	if got := waiting(); got != tablesWaiting-4 || compacted() > 0 {
		t.Errorf("while loading, %d layers wait, and %d compactions ran", got, compacted())
	}
	other()
	if compacted() > 0 {
		t.Error("compacted while one of two still loads")
	}
	done()
	until(t, "compacted when nobody loads any more", func() bool { return waiting() < 8 })

	defer sh.Loading()()
	before := compacted()
	fill(3 * tablesWaiting)
	until(t, "compacted while loading, when too many layers wait", func() bool { return compacted() > before && waiting() <= tablesWaiting })
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
