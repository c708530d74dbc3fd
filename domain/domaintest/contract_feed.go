package domaintest

import (
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

func feedClaims() []Claim {
	return []Claim{
		{"A feed's tip is the newest serial, and each advance wakes", func(t *testing.T, s Subject) {
			x, _ := s.filled(t, 2)
			f := x.Feed()
			wake := watch(t, f)
			await(t, wake, "tip 2", func() bool { return f.Tip() == 2 })
			for i := range 20 {
				m := send(t, x, draft(100+i))
				await(t, wake, "advance", func() bool { return f.Tip() >= m.Serial })
				if f.Tip() != m.Serial || f.Err() != nil {
					t.Fatalf("tip %d, %v; want %d", f.Tip(), f.Err(), m.Serial)
				}
			}
		}},
		{"All readers of a room get one feed, of two rooms two", func(t *testing.T, s Subject) {
			info := s.create(t, "x")
			f := s.room(t, info).Feed()
			if s.room(t, info).Feed() != f {
				t.Error("two feeds for one room")
			}
			if s.room(t, s.createOn(t, info.Shard, "y")).Feed() == f {
				t.Error("one feed for two rooms")
			}
			if s.Home.ShardsFeed() != s.Home.ShardsFeed() || s.Home.Directory().Feed() != s.Home.Directory().Feed() {
				t.Error("the feed of shards or rooms is another one each time")
			}
		}},
		{"A refused send or a duplicate advances nothing", func(t *testing.T, s Subject) {
			x, _ := s.filled(t, 1)
			f := x.Feed()
			await(t, watch(t, f), "tip 1", func() bool { return f.Tip() == 1 })
			_, _, _ = x.Send(t.Context(), draft(1))
			_, _, _ = x.Send(t.Context(), domain.Draft{User: "alice", ClientID: "1", Text: "another"})
			_, _, _ = x.Send(t.Context(), domain.Draft{})
			if f.Tip() != 1 {
				t.Errorf("tip %d, want 1", f.Tip())
			}
		}},
		{"A stopped watch is not called again but perhaps once", func(t *testing.T, s Subject) {
			x, _ := s.filled(t, 0)
			f := x.Feed()
			var calls atomic.Int32
			f.Watch(func() { calls.Add(1) })()
			wake := watch(t, f)
			for i := range 5 {
				m := send(t, x, draft(i))
				await(t, wake, "advance", func() bool { return f.Tip() >= m.Serial })
			}
			if n := calls.Load(); n > 1 {
				t.Errorf("called %d times after stop", n)
			}
		}},
	}
}

func directoryClaims() []Claim {
	return []Claim{
		{"The room list has the order of announcement, in pages", func(t *testing.T, s Subject) {
			d := s.Home.Directory()
			if rooms, more, err := d.ChatRooms(t.Context(), 0, 5); len(rooms) > 0 || more || err != nil {
				t.Fatalf("an empty house lists %v %v %v", rooms, more, err)
			}
			var want []domain.ChatRoomInfo
			for range 7 {
				want = append(want, s.create(t, "room"))
			}
			var got []domain.ChatRoomInfo
			after := domain.Serial(0)
			for {
				rooms, more, err := d.ChatRooms(t.Context(), after, 3)
				if err != nil || len(rooms) > 3 {
					t.Fatalf("%d rooms, %v", len(rooms), err)
				}
				for _, r := range rooms {
					if r.Serial != after+1 {
						t.Errorf("serial %d after %d", r.Serial, after)
					}
					after = r.Serial
					got = append(got, r.Info)
				}
				if more != (len(got) < len(want)) {
					t.Errorf("more is %v after %d of %d", more, len(got), len(want))
				}
				if !more {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("listed %v, want %v", got, want)
			}
			if rooms, more, err := d.ChatRooms(t.Context(), after, 3); len(rooms) > 0 || more || err != nil {
				t.Errorf("behind the end: %v %v %v", rooms, more, err)
			}
		}},
		{"The room list's feed wakes for a new room", func(t *testing.T, s Subject) {
			f := s.Home.Directory().Feed()
			wake := watch(t, f)
			for i := range 3 {
				s.create(t, "room")
				await(t, wake, "announcement", func() bool { return f.Tip() == domain.Serial(i+1) })
			}
			if f.Err() != nil {
				t.Errorf("ended: %v", f.Err())
			}
		}},
		{"Cursors of the room list lead back, or are out of range", func(t *testing.T, s Subject) {
			d := s.Home.Directory()
			for range 3 {
				s.create(t, "room")
			}
			rooms, _, err := d.ChatRooms(t.Context(), 0, 3)
			if err != nil || len(rooms) != 3 {
				t.Fatalf("%v, %v", rooms, err)
			}
			for _, r := range rooms {
				c, err := domain.ParseListCursor(d.Cursor(r).String())
				if err != nil {
					t.Fatal(err)
				}
				if serial, err := d.Resolve(t.Context(), c); err != nil || serial != r.Serial {
					t.Errorf("resolved to %d, %v; want %d", serial, err, r.Serial)
				}
			}
			if serial, err := d.Resolve(t.Context(), domain.ListCursor{Home: s.Home.Home()}); err != nil || serial != 0 {
				t.Errorf("the start resolves to %d, %v", serial, err)
			}
			good := d.Cursor(rooms[1])
			for what, change := range map[string]func(*domain.ListCursor){
				"another life":       func(c *domain.ListCursor) { c.Home = uuid.New() },
				"another room there": func(c *domain.ListCursor) { c.Hash++ },
				"behind the end":     func(c *domain.ListCursor) { c.Serial = 4 },
			} {
				c := good
				change(&c)
				_, err := d.Resolve(t.Context(), c)
				is[*domain.CursorOutOfRangeError](t, what, err)
			}
		}},
	}
}
