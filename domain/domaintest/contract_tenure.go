package domaintest

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

func tenureClaims() []Claim {
	return []Claim{
		{"A locked shard answers everything with ShardNotOwned at once", func(t *testing.T, s Subject) {
			x, list := s.filled(t, 3)
			info := x.Info()
			shards := s.Home.ShardsFeed()
			before := shards.Tip()
			wake := watch(t, shards)
			s.Lock(t, info.Shard)

			_, err := s.Home.ChatRoom(t.Context(), info.Shard, info.ID)
			s.checkNotOwned(t, "gate", err, info.Shard)
			_, _, err = x.Send(t.Context(), draft(4))
			s.checkNotOwned(t, "send", err, info.Shard)
			_, _, err = x.Send(t.Context(), draft(1))
			s.checkNotOwned(t, "send a duplicate", err, info.Shard)
			_, _, err = x.Message(t.Context(), "alice", "1")
			s.checkNotOwned(t, "message", err, info.Shard)
			_, err = x.Messages(t.Context(), domain.Range{Limit: 1})
			s.checkNotOwned(t, "messages", err, info.Shard)
			_, _, err = x.Bounds(t.Context())
			s.checkNotOwned(t, "bounds", err, info.Shard)
			_, err = x.Resolve(t.Context(), x.Cursor(&list[0]))
			s.checkNotOwned(t, "resolve", err, info.Shard)
			_, err = x.CursorAt(t.Context(), 1)
			s.checkNotOwned(t, "cursor at", err, info.Shard)
			_, _, err = s.Home.CreateChatRoom(t.Context(), idOn(s.Home, info.Shard), "new")
			s.checkNotOwned(t, "create", err, info.Shard)

			await(t, wake, "the shard's state", func() bool { return shards.Tip() > before })
			st := s.Home.Shards()[info.Shard]
			if st.State == domain.ShardOpen || st.NotOwned == nil || st.NotOwned.State != st.State {
				t.Errorf("listed as %+v", st)
			}
		}},
		{"The directory answers while locked", func(t *testing.T, s Subject) {
			info := s.create(t, "lobby")
			s.Lock(t, info.Shard)
			if got, err := s.Home.Directory().ChatRoom(t.Context(), info.ID); err != nil || got != info {
				t.Errorf("%+v, %v; want %+v", got, err, info)
			}
			if rooms, _, err := s.Home.Directory().ChatRooms(t.Context(), 0, 5); err != nil || len(rooms) != 1 {
				t.Errorf("%v, %v", rooms, err)
			}
			if s.Home.Directory().Feed().Err() != nil {
				t.Error("the list's feed ended with the tenure")
			}
		}},
		{"A feed ends with the tenure, for ever, and wakes", func(t *testing.T, s Subject) {
			x, _ := s.filled(t, 1)
			f := x.Feed()
			wake := watch(t, f)
			s.Lock(t, x.Info().Shard)
			await(t, wake, "the end", func() bool { return f.Err() != nil })
			first := f.Err()
			is[*domain.ShardNotOwnedError](t, "feed", first)
			s.Open(t, x.Info().Shard)
			if !errors.Is(f.Err(), first) {
				t.Errorf("another reason: %v, first %v", f.Err(), first)
			}
			y := s.room(t, x.Info())
			if y.Feed() == f || y.Feed().Err() != nil {
				t.Errorf("the new tenure's feed: same %v, %v", y.Feed() == f, y.Feed().Err())
			}
		}},
		{"A handle does not cross a tenure", func(t *testing.T, s Subject) {
			x, _ := s.filled(t, 1)
			s.Lock(t, x.Info().Shard)
			s.Open(t, x.Info().Shard)
			_, _, err := x.Send(t.Context(), draft(2))
			is[*domain.ShardNotOwnedError](t, "send", err)
			_, err = x.Messages(t.Context(), domain.Range{Limit: 1})
			is[*domain.ShardNotOwnedError](t, "messages", err)
			bounds(t, s.room(t, x.Info()), 1, 1)
		}},
		{"The next tenure has every message, serial, time and cursor", func(t *testing.T, s Subject) {
			x, list := s.filled(t, 70)
			info := x.Info()
			cursor := x.Cursor(&list[66])
			for range 2 {
				s.Lock(t, info.Shard)
				s.Open(t, info.Shard)
			}
			y := s.room(t, info)
			if y.Info() != info {
				t.Errorf("the room became %+v, want %+v", y.Info(), info)
			}
			p := page(t, y, domain.Range{Limit: 100})
			if len(p.Messages) != len(list) {
				t.Fatalf("%d messages, want %d", len(p.Messages), len(list))
			}
			for i, m := range p.Messages {
				if m != list[i] {
					t.Errorf("message %+v, want %+v", m, list[i])
				}
			}
			if serial, err := y.Resolve(t.Context(), cursor); err != nil || serial != 67 {
				t.Errorf("cursor resolves to %d, %v; want 67", serial, err)
			}
			m, duplicate, err := y.Send(t.Context(), draft(3))
			if m != list[2] || !duplicate || err != nil {
				t.Errorf("retry: %+v duplicate %v, %v; want %+v", m, duplicate, err, list[2])
			}
			_, _, err = y.Send(t.Context(), domain.Draft{User: "alice", ClientID: "3", Text: "another"})
			is[*domain.MessageMutationError](t, "another text", err)
			if m := send(t, y, draft(71)); m.Serial != 71 || m.SentAt < list[69].SentAt {
				t.Errorf("next is %+v after %+v", m, list[69])
			}
			if f := y.Feed(); f.Tip() < 70 {
				t.Errorf("tip %d", f.Tip())
			}
			again, duplicate, err := s.Home.CreateChatRoom(t.Context(), info.ID, info.Name)
			if again != info || !duplicate || err != nil {
				t.Errorf("create again: %+v %v %v", again, duplicate, err)
			}
		}},
	}
}

func (s Subject) checkNotOwned(t *testing.T, what string, err error, shard domain.ShardID) {
	t.Helper()
	e := as[*domain.ShardNotOwnedError](t, what, err)
	if e == nil {
		return
	}
	if e.Shard != shard || e.State == domain.ShardOpen || e.Instance != s.Home.Instance() || e.RetryAfter <= 0 {
		t.Errorf("%s: %+v", what, *e)
	}
}

func idOn(h domain.ChatHome, shard domain.ShardID) uuid.UUID {
	for {
		id := uuid.New()
		if of, _ := h.ShardOf(id); of == shard {
			return id
		}
	}
}
