package domaintest

import (
	"math"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

func historyClaims() []Claim {
	return []Claim{
		{"Pages hold what their range says, with the right flags", checkPages},
		{"Pages walk the whole history in both directions", func(t *testing.T, s Subject) {
			x, list := s.filled(t, 130)
			for _, limit := range []int{1, 7, 64, 65, 1000} {
				var forward, backward []domain.Message
				for after := domain.Serial(0); ; {
					p := page(t, x, domain.Range{After: after, Limit: limit})
					forward = append(forward, p.Messages...)
					if !p.HasNext {
						break
					}
					after = p.Messages[len(p.Messages)-1].Serial
				}
				for before := domain.Serial(0); ; {
					p := page(t, x, domain.Range{Before: before, Limit: limit, FromEnd: true})
					backward = append(slices.Clone(p.Messages), backward...)
					if !p.HasPrevious {
						break
					}
					before = p.Messages[0].Serial
				}
				if !slices.Equal(forward, list) || !slices.Equal(backward, list) {
					t.Errorf("pages of %d: %d forward, %d backward, want %d", limit, len(forward), len(backward), len(list))
				}
			}
		}},
		{"Cursors lead back to where they came from", func(t *testing.T, s Subject) {
			x, list := s.filled(t, 70)
			for _, i := range []int{0, 1, 62, 63, 64, 69} {
				c := x.Cursor(&list[i])
				at, err := x.CursorAt(t.Context(), list[i].Serial)
				if err != nil || at != c {
					t.Errorf("cursor at %d is %+v, %v; want %+v", list[i].Serial, at, err, c)
				}
				parsed, err := domain.ParseCursor(c.String())
				if err != nil || parsed != c {
					t.Errorf("parsed %+v, %v; want %+v", parsed, err, c)
				}
				if serial, err := x.Resolve(t.Context(), c); err != nil || serial != list[i].Serial {
					t.Errorf("resolved to %d, %v; want %d", serial, err, list[i].Serial)
				}
			}
			start, err := x.CursorAt(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			if serial, err := x.Resolve(t.Context(), start); err != nil || serial != 0 {
				t.Errorf("the start resolves to %d, %v", serial, err)
			}
			_, err = x.CursorAt(t.Context(), 71)
			is[*domain.CursorOutOfRangeError](t, "cursor behind the end", err)
		}},
		{"A cursor of another room is bad", func(t *testing.T, s Subject) {
			x, list := s.filled(t, 3)
			for _, y := range []domain.Room{ // on the same shard, and wherever it falls
				s.room(t, s.createOn(t, x.Info().Shard, "same shard")), s.room(t, s.create(t, "any shard")),
			} {
				post(t, y, 3)
				_, err := y.Resolve(t.Context(), x.Cursor(&list[1]))
				is[*domain.BadCursorError](t, "resolve", err)
			}
		}},
		{"A cursor of another life or out of the history is out of range", func(t *testing.T, s Subject) {
			x, list := s.filled(t, 3)
			good := x.Cursor(&list[1])
			for what, change := range map[string]func(*domain.Cursor){
				"another life":            func(c *domain.Cursor) { c.Home = uuid.New() },
				"another message there":   func(c *domain.Cursor) { c.Hash++ },
				"one behind the end":      func(c *domain.Cursor) { c.Serial = 4 },
				"far behind the end":      func(c *domain.Cursor) { c.Serial = math.MaxInt64 },
				"another life, the start": func(c *domain.Cursor) { c.Home, c.Serial, c.Hash = uuid.New(), 0, 0 },
				"the start with a hash":   func(c *domain.Cursor) { c.Serial = 0 },
			} {
				c := good
				change(&c)
				_, err := x.Resolve(t.Context(), c)
				e := as[*domain.CursorOutOfRangeError](t, what, err)
				if e == nil {
					continue
				}
				if got := follow(t, x, e.Oldest); got != 0 {
					t.Errorf("%s: behind the oldest cursor stands %d, want 0: nothing that is there may be missed", what, got)
				}
				if got := follow(t, x, e.Newest); got != 3 {
					t.Errorf("%s: the newest cursor is at %d, want 3", what, got)
				}
			}
			y := s.room(t, s.create(t, "empty"))
			_, err := y.Resolve(t.Context(), domain.Cursor{Home: s.Home.Home(), Room: y.Info().ID, Serial: 1})
			if e := as[*domain.CursorOutOfRangeError](t, "empty room", err); e != nil && (e.Oldest != "" || e.Newest != "") {
				t.Errorf("cursors %q, %q in an empty room, want none", e.Oldest, e.Newest)
			}
		}},
	}
}

func checkPages(t *testing.T, s Subject) {
	empty, _ := s.filled(t, 0)
	full, list := s.filled(t, 5)
	type want struct {
		first, last domain.Serial // 0: no messages
		prev, next  bool
	}
	for _, tc := range []struct {
		name string
		room domain.Room
		r    domain.Range
		want want
	}{
		{"empty room", empty, domain.Range{Limit: 2}, want{}},
		{"empty room from the end", empty, domain.Range{Limit: 2, FromEnd: true}, want{}},
		{"first", full, domain.Range{Limit: 2}, want{1, 2, false, true}},
		{"first, all", full, domain.Range{Limit: 5}, want{1, 5, false, false}},
		{"first, more than all", full, domain.Range{Limit: 6}, want{1, 5, false, false}},
		{"after", full, domain.Range{After: 2, Limit: 2}, want{3, 4, true, true}},
		{"after, to the end", full, domain.Range{After: 3, Limit: 2}, want{4, 5, true, false}},
		{"after, before", full, domain.Range{After: 1, Before: 4, Limit: 9}, want{2, 3, true, true}},
		{"before", full, domain.Range{Before: 3, Limit: 9}, want{1, 2, false, true}},
		{"before, behind the end", full, domain.Range{Before: 9, Limit: 9}, want{1, 5, false, false}},
		{"last", full, domain.Range{Limit: 2, FromEnd: true}, want{4, 5, true, false}},
		{"last, all", full, domain.Range{Limit: 5, FromEnd: true}, want{1, 5, false, false}},
		{"last before", full, domain.Range{Before: 4, Limit: 2, FromEnd: true}, want{2, 3, true, true}},
		{"last before, to the start", full, domain.Range{Before: 3, Limit: 2, FromEnd: true}, want{1, 2, false, true}},
		{"last after", full, domain.Range{After: 3, Limit: 9, FromEnd: true}, want{4, 5, true, false}},
		{"last after before", full, domain.Range{After: 1, Before: 5, Limit: 2, FromEnd: true}, want{3, 4, true, true}},
		{"bytes", full, domain.Range{Limit: 9, MaxBytes: 2*len("text 1") + 1}, want{1, 2, false, true}},
		{"bytes from the end", full, domain.Range{Limit: 9, MaxBytes: 2 * len("text 1"), FromEnd: true}, want{4, 5, true, false}},
		{"bytes, at least one", full, domain.Range{After: 2, Limit: 9, MaxBytes: 1}, want{3, 3, true, true}},
	} {
		p := page(t, tc.room, tc.r)
		got := want{prev: p.HasPrevious, next: p.HasNext}
		if n := len(p.Messages); n > 0 {
			got.first, got.last = p.Messages[0].Serial, p.Messages[n-1].Serial
			if !slices.Equal(p.Messages, list[got.first-1:got.last]) {
				t.Errorf("%s: %+v", tc.name, p.Messages)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
	for _, r := range []domain.Range{{After: 5, Limit: 2}, {After: 9, Limit: 2}, {After: 2, Before: 3, Limit: 2}, {After: 2, Before: 1, Limit: 2, FromEnd: true}, {Before: 1, Limit: 2}} {
		if p := page(t, full, r); len(p.Messages) > 0 {
			t.Errorf("%+v: %d messages, want none", r, len(p.Messages))
		}
	}
}

func page(t *testing.T, x domain.Room, r domain.Range) domain.Page {
	t.Helper()
	p, err := x.Messages(t.Context(), r)
	if err != nil {
		t.Fatalf("messages %+v: %v", r, err)
	}
	return p
}

func follow(t *testing.T, x domain.Room, cursor string) domain.Serial {
	t.Helper()
	c, err := domain.ParseCursor(cursor)
	if err != nil {
		t.Errorf("cursor %q: %v", cursor, err)
		return -1
	}
	serial, err := x.Resolve(t.Context(), c)
	if err != nil {
		t.Errorf("resolve %+v: %v", c, err)
		return -1
	}
	return serial
}

// createOn creates a room on this shard.
func (s Subject) createOn(t *testing.T, shard domain.ShardID, name string) domain.ChatRoomInfo {
	t.Helper()
	return s.createID(t, idOn(s.Home, shard), name)
}
