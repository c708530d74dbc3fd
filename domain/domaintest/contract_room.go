package domaintest

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

func roomClaims() []Claim {
	return []Claim{
		{"A drawn id lies on an open shard", func(t *testing.T, s Subject) {
			states := s.Home.Shards()
			for range 20 {
				id := s.Home.DrawChatRoomID()
				shard, ok := s.Home.ShardOf(id)
				if !ok || shard != domain.ShardOf(id, len(states)) {
					t.Fatalf("shard %d %v of %s, want %d", shard, ok, id, domain.ShardOf(id, len(states)))
				}
				if states[shard].State != domain.ShardOpen {
					t.Errorf("drawn for shard %d, which is %s", shard, states[shard].State)
				}
			}
		}},
		{"Shards are listed in order, and open ones without a reason", func(t *testing.T, s Subject) {
			for i, st := range s.Home.Shards() {
				if int(st.Shard) != i || st.State != domain.ShardOpen || st.NotOwned != nil {
					t.Errorf("entry %d: %+v", i, st)
				}
			}
		}},
		{"A created room is behind the gate and in the directory at once", func(t *testing.T, s Subject) {
			info := s.create(t, "Ĺobby 1")
			if info.Name != "Ĺobby 1" || info.CreatedAt <= 0 {
				t.Errorf("created %+v", info)
			}
			if got := s.room(t, info).Info(); got != info {
				t.Errorf("behind the gate %+v, want %+v", got, info)
			}
			if got, err := s.Home.Directory().ChatRoom(t.Context(), info.ID); err != nil || got != info {
				t.Errorf("in the directory %+v, %v; want %+v", got, err, info)
			}
			bounds(t, s.room(t, info), 1, 0)
		}},
		{"Creating again with the same name answers the same room", func(t *testing.T, s Subject) {
			info := s.create(t, "lobby")
			again, duplicate, err := s.Home.CreateChatRoom(t.Context(), info.ID, "lobby")
			if err != nil || !duplicate || again != info {
				t.Errorf("%+v duplicate %v, %v; want %+v", again, duplicate, err, info)
			}
			if rooms, _, _ := s.Home.Directory().ChatRooms(t.Context(), 0, 10); len(rooms) != 1 {
				t.Errorf("%d rooms are listed, want 1", len(rooms))
			}
		}},
		{"Creating again with another name is a mutation", func(t *testing.T, s Subject) {
			info := s.create(t, "lobby")
			_, _, err := s.Home.CreateChatRoom(t.Context(), info.ID, "Lobby")
			if e := as[*domain.ChatRoomMutationError](t, "create", err); e != nil && e.Existing != info {
				t.Errorf("existing %+v, want %+v", e.Existing, info)
			}
			if got := s.room(t, info).Info(); got != info {
				t.Errorf("the room became %+v", got)
			}
		}},
		{"A bad name creates nothing", func(t *testing.T, s Subject) {
			for _, name := range []string{"", " ", "a\nb", "a\u202eb", strings.Repeat("x", domain.MaxRoomNameRunes+1), "\xff"} {
				id := s.Home.DrawChatRoomID()
				_, _, err := s.Home.CreateChatRoom(t.Context(), id, name)
				is[*domain.InvalidInputError](t, "create", err)
				shard, _ := s.Home.ShardOf(id)
				_, err = s.Home.ChatRoom(t.Context(), shard, id)
				is[*domain.UnknownChatRoomError](t, "gate", err)
			}
		}},
		{"Of many who create one room at once, one does", func(t *testing.T, s Subject) {
			id := s.Home.DrawChatRoomID()
			var wg sync.WaitGroup
			infos, created := make([]domain.ChatRoomInfo, 8), make([]bool, 8)
			for i := range infos {
				wg.Go(func() {
					info, duplicate, err := s.Home.CreateChatRoom(t.Context(), id, "lobby")
					if err != nil {
						t.Errorf("create: %v", err)
					}
					infos[i], created[i] = info, !duplicate
				})
			}
			wg.Wait()
			n := 0
			for i := range infos {
				if infos[i] != infos[0] {
					t.Errorf("answers differ: %+v, %+v", infos[i], infos[0])
				}
				if created[i] {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d say that they created it, want 1", n)
			}
		}},
		{"A room that does not exist is unknown for certain", func(t *testing.T, s Subject) {
			id := uuid.New()
			shard, _ := s.Home.ShardOf(id)
			_, err := s.Home.ChatRoom(t.Context(), shard, id)
			if e := as[*domain.UnknownChatRoomError](t, "gate", err); e != nil && e.ID != id {
				t.Errorf("unknown is %s, want %s", e.ID, id)
			}
			_, err = s.Home.Directory().ChatRoom(t.Context(), id)
			is[*domain.UnknownChatRoomError](t, "directory", err)
		}},
		{"A shard that does not exist is not owned", func(t *testing.T, s Subject) {
			for _, shard := range []domain.ShardID{-1, domain.ShardID(len(s.Home.Shards()))} {
				_, err := s.Home.ChatRoom(t.Context(), shard, uuid.New())
				is[*domain.ShardNotOwnedError](t, "gate", err)
			}
		}},
	}
}
