package directory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

func TestDirectory_HomeRaceHasOneWinner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		all := three(t, topic)
		want := all[0].life()
		for _, i := range all {
			if got := i.life(); got != want {
				t.Fatalf("lives %v and %v", got, want)
			}
			if len(i.lives) != 1 || i.lives[0] != want || i.olds[0] != (Life{}) {
				t.Fatalf("NewLife was called with %v after %v", i.lives, i.olds)
			}
		}
		if topic.appends < 2 {
			t.Fatalf("%d appends: no race", topic.appends)
		}
	})
}

func TestDirectory_LostAnswerToTheFirstHomeIsReadBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		topic.lose = 3
		i := run(t, topic.as("a"), "a", newMemStore())
		if life := i.life(); life.Shards != 4 || decode(topic.values[0]).life != life {
			t.Fatalf("life %v", life)
		}
	})
}

func TestDirectory_JunkBeforeTheHomeAndInTheTopicIsSkippedAndCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		topic.put([]byte("rubbish"), must(encodeRoom(homeB, roomInfo(9))), nil)
		a := run(t, topic.as("a"), "a", newMemStore())
		a.life()
		a.announce(1)
		topic.put([]byte{0, 0, 0, 0, 0, 0}, []byte("more"))
		a.announce(2)
		if got := sameLists(t, a); len(got) != 2 {
			t.Fatalf("list %v", got)
		}
		if s := a.Stats(); s.Junk < 2 {
			t.Fatalf("stats %+v", s)
		}
		b := run(t, topic.as("b"), "b", newMemStore())
		b.life()
		sameLists(t, a, b)
	})
}

func TestDirectory_AllInstancesListRoomsInTheOrderOfFirstAnnouncement(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		all := three(t, topic)
		var wg sync.WaitGroup
		for n, i := range all {
			i.life()
			wg.Go(func() {
				for r := range 100 {
					if err := i.Announce(bounded(t), roomInfo(r*(n+1)+1)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		late := run(t, topic.as("late"), "late", newMemStore())
		late.life()
		sameLists(t, append(all, late)...)
	})
}

func TestDirectory_AnnouncesInBatchesAndOnlyWhatIsMissing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		a.life()
		const rooms = 20_000
		each := func(visit func(domain.ChatRoomInfo) bool) error {
			for n := range rooms {
				if !visit(roomInfo(n)) {
					break
				}
			}
			return nil
		}
		before := topic.appends
		if err := a.AnnounceRooms(bounded(t), each); err != nil {
			t.Fatal(err)
		}
		if n := topic.appends - before; n > rooms/batchRecords+1 {
			t.Fatalf("%d appends for %d rooms", n, rooms)
		}
		b := run(t, topic.as("b"), "b", newMemStore())
		before = topic.appends
		if err := b.AnnounceRooms(bounded(t), each); err != nil {
			t.Fatal(err)
		}
		if n := topic.appends - before; n != 0 {
			t.Fatalf("%d appends for rooms that are known", n)
		}
		if got := sameLists(t, a, b); len(got) != rooms {
			t.Fatalf("%d rooms", len(got))
		}
	})
}

func TestDirectory_ManyAnnouncersShareBatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		a.life()
		before := topic.appends
		var wg sync.WaitGroup
		for n := range 500 {
			wg.Go(func() {
				if err := a.Announce(bounded(t), roomInfo(n)); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := topic.appends - before; n > 5 {
			t.Fatalf("%d appends", n)
		}
	})
}

func TestAnnounce_IsRetriedUntilTheContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		a.life()
		topic.setDown("a", true)
		ctx, cancel := context.WithTimeout(bounded(t), 3*time.Second)
		defer cancel()
		if err := a.Announce(ctx, roomInfo(1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("announce while kafka is away: %v", err)
		}
		time.AfterFunc(5*time.Second, func() { topic.setDown("a", false) })
		a.announce(2)
		if got := sameLists(t, a); len(got) != 1 || got[0].Info.ID != roomID(2) {
			t.Fatalf("list %v: an announcement was sent that nobody waited for", got)
		}
	})
}

func TestAnnounce_LostAnswersDoNoHarm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		a.life()
		topic.do(func() { topic.lose = 2 })
		a.announce(1, 2, 3)
		if got := sameLists(t, a); len(got) != 3 {
			t.Fatalf("list %v", got)
		}
	})
}

func TestChatRoom_CreatedThenAtOnceLookedUpElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		all := three(t, topic)
		for _, i := range all {
			i.life()
		}
		for n := range 500 {
			all[n%3].announce(n)
			for _, i := range all {
				info, err := i.ChatRoom(bounded(t), roomID(n))
				if err != nil || info.Name != roomInfo(n).Name {
					t.Fatalf("room %d: %v, %v", n, info, err)
				}
			}
		}
	})
}

func TestChatRoom_UnknownIsCertain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		b := run(t, topic.as("b"), "b", newMemStore())
		life := a.life()
		b.life()
		var none *domain.UnknownChatRoomError
		if _, err := b.ChatRoom(bounded(t), roomID(1)); !errors.As(err, &none) || none.ID != roomID(1) {
			t.Fatalf("an unknown room: %v", err)
		}
		if s := b.Stats(); s.Barriers != 0 {
			t.Fatalf("%d barriers without a fault", s.Barriers)
		}
		// A new leader names an end below what was acknowledged. It happens after a fault, or shows by itself.
		topic.do(func() { topic.lag = 2 })
		topic.put(must(encodeRoom(life.Home, roomInfo(1))))
		b.fault()
		if _, err := b.ChatRoom(bounded(t), roomID(1)); err != nil {
			t.Fatalf("a room above the end that the broker names: %v", err)
		}
	})
}

func TestChatRoom_LookupsShareOneReading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		a.life()
		before := topic.bounds
		var wg sync.WaitGroup
		for n := range 1000 {
			wg.Go(func() {
				var none *domain.UnknownChatRoomError
				if _, err := a.ChatRoom(bounded(t), roomID(n)); !errors.As(err, &none) {
					t.Errorf("room %d: %v", n, err)
				}
			})
		}
		wg.Wait()
		if n := topic.bounds - before; n > 3 {
			t.Fatalf("%d questions to the broker for 1000 lookups at once", n)
		}
	})
}

func TestChatRoom_OutageIsOverloadedNeverUnknown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		a.life()
		a.announce(1)
		topic.setDown("a", true)
		time.Sleep(time.Second)
		if _, err := a.ChatRoom(bounded(t), roomID(1)); err != nil {
			t.Fatalf("a known room during an outage: %v", err)
		}
		began := time.Now()
		var over *domain.OverloadedError
		if _, err := a.ChatRoom(bounded(t), roomID(2)); !errors.As(err, &over) || over.Resource != "directory" || over.RetryAfter <= 0 {
			t.Fatalf("an unknown room during an outage: %v", err)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Fatalf("the answer took %v", took)
		}
		ctx, cancel := context.WithTimeout(bounded(t), 100*time.Millisecond)
		defer cancel()
		began = time.Now()
		if _, err := a.ChatRoom(ctx, roomID(2)); !errors.As(err, &over) || time.Since(began) > 100*time.Millisecond {
			t.Fatalf("with a short context: %v after %v", err, time.Since(began))
		}
		if err := a.Ready(); err == nil || !strings.Contains(err.Error(), errAway.Error()) {
			t.Fatalf("ready: %v", err)
		}
		topic.setDown("a", false)
		time.Sleep(3 * time.Second)
		var none *domain.UnknownChatRoomError
		if _, err := a.ChatRoom(bounded(t), roomID(2)); !errors.As(err, &none) {
			t.Fatalf("after the outage: %v", err)
		}
		if err := a.Ready(); err != nil {
			t.Fatalf("ready: %v", err)
		}
	})
}

func TestRun_StartsWhileKafkaIsAwayAndSaysWhyOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		topic.setDown("a", true)
		a := run(t, topic.as("a"), "a", newMemStore())
		time.Sleep(time.Minute)
		if err := a.Ready(); err == nil {
			t.Fatal("ready without kafka")
		}
		if n := a.log.count("the directory cannot follow its topic: trying again"); n != 1 {
			t.Fatalf("said %d times", n)
		}
		var over *domain.OverloadedError
		if _, _, err := a.ChatRooms(bounded(t), 0, 10); !errors.As(err, &over) {
			t.Fatalf("list without a life: %v", err)
		}
		topic.setDown("a", false)
		if life := a.life(); life.Shards != 4 {
			t.Fatalf("life %v", life)
		}
	})
}

func TestRun_ContinuesFromTheStoreAndAnswersBeforeKafkaDoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		store := newMemStore()
		a := run(t, topic.as("a"), "a", store)
		life := a.life()
		a.announce(1, 2, 3)
		if err := a.AnnounceOwner(bounded(t), a.Claim(2), 7); err != nil {
			t.Fatal(err)
		}
		a.stop()
		topic.setDown("b", true)
		b := run(t, topic.as("b"), "b", store)
		if b.Life() != life || len(b.list()) != 3 || b.Owner(2).Version != 7 || b.Owner(1) != nil {
			t.Fatalf("from the store: %v %v %v", b.Life(), b.list(), b.Owner(2))
		}
		topic.setDown("b", false)
		b.life()
		if len(b.lives) != 0 {
			t.Fatalf("NewLife was called with %v", b.lives)
		}
		b.announce(4)
		if got := sameLists(t, b); len(got) != 4 {
			t.Fatalf("list %v", got)
		}
	})
}

func TestLife_RecreatedTopicIsANewLife(t *testing.T) {
	for _, rooms := range []int{0, 2, 50} { // fewer, some, and more records than before
		t.Run(fmt.Sprint(rooms), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				topic := newMemTopic()
				all := three(t, topic)
				old := all[0].life()
				for n := range 10 {
					all[n%3].announce(n)
				}
				sameLists(t, all...)
				feed := all[1].Feed()
				woken := make(chan struct{}, 100)
				defer feed.Watch(func() { woken <- struct{}{} })()
				cursor := all[1].Cursor(all[1].list()[4])

				topic.recreate()
				fresh := run(t, topic.as("fresh"), "fresh", newMemStore(), func(c *Config) { c.Shards = 9 })
				fresh.life()
				for n := range rooms {
					fresh.announce(1000 + n)
				}
				time.Sleep(10 * time.Second)

				now := fresh.life()
				for _, i := range all {
					if got := i.life(); got != now || got == old || i.ShardCount() != now.Shards {
						t.Fatalf("life %v, want %v", got, now)
					}
					i.mu.Lock()
					if n := len(i.lives); n != 2 || i.olds[1] != old || i.lives[1] != now {
						t.Errorf("NewLife was called with %v after %v", i.lives, i.olds)
					}
					i.mu.Unlock()
				}
				if got := sameLists(t, append(all, fresh)...); len(got) != rooms {
					t.Fatalf("list %v", got)
				}
				var ended, gone *domain.CursorOutOfRangeError
				if err := feed.Err(); !errors.As(err, &ended) || ended.Oldest == "" {
					t.Fatalf("the old feed: %v", err)
				}
				if len(woken) == 0 {
					t.Fatal("the follower was not woken")
				}
				if now := all[1].Feed(); now == feed || now.Err() != nil || now != all[1].Feed() {
					t.Fatal("no new feed")
				}
				if _, err := all[1].Resolve(bounded(t), cursor); !errors.As(err, &gone) {
					t.Fatalf("a cursor of the old life: %v", err)
				}
				c, err := domain.ParseListCursor(ended.Oldest)
				if s, rerr := all[1].Resolve(bounded(t), c); err != nil || rerr != nil || s != 0 {
					t.Fatalf("the cursor that the end names: %v, %v, %v", s, err, rerr)
				}
			})
		})
	}
}

func TestLife_AnnouncementOfTheOldLifeIsVoidInTheNewOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		old := a.life()
		topic.recreate()
		topic.put(must(encodeRoom(old.Home, roomInfo(1))), must(encodeHome(Life{homeB, 4})), must(encodeRoom(old.Home, roomInfo(2))))
		time.Sleep(10 * time.Second)
		if got := sameLists(t, a); a.Home() != homeB || len(got) != 0 || a.Stats().Foreign != 1 {
			t.Fatalf("home %v, list %v, stats %+v", a.Home(), got, a.Stats())
		}
	})
}

func TestAnnounce_EndsWithTheLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		a.life()
		claim := a.Claim(0)
		topic.setDown("a", true)
		errs := make(chan error)
		go func() { errs <- a.Announce(bounded(t), roomInfo(1)) }()
		time.Sleep(time.Second)
		topic.recreate()
		topic.put(must(encodeHome(Life{homeB, 4})))
		topic.setDown("a", false)
		if err := <-errs; !errors.Is(err, ErrNewLife) {
			t.Fatalf("announce over the end of a life: %v", err)
		}
		if err := a.AnnounceOwner(bounded(t), claim, 3); !errors.Is(err, ErrNewLife) {
			t.Fatalf("an owner of the old life: %v", err)
		}
		if got := sameLists(t, a); len(got) != 0 {
			t.Fatalf("list %v", got)
		}
	})
}

func TestLife_HookIsRepeatedUntilItSucceeds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		calls := 0
		a := run(t, topic.as("a"), "a", newMemStore(), func(c *Config) {
			c.Hooks.NewLife = func(context.Context, Life, Life) error {
				if calls++; calls < 4 {
					return errors.New("disk full")
				}
				return nil
			}
		})
		a.life()
		if calls != 4 {
			t.Fatalf("%d calls", calls)
		}
	})
}

func TestTail_TopicThatLostRecordsIsReadAgain(t *testing.T) {
	for _, regrown := range []int{0, 1, 2, 5} {
		t.Run(fmt.Sprint(regrown), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				topic := newMemTopic()
				a := run(t, topic.as("a"), "a", newMemStore())
				life := a.life()
				a.announce(1)
				a.announce(2)
				a.announce(3)
				feed := a.Feed()
				topic.setDown("a", true)
				time.Sleep(time.Second)
				topic.do(func() { topic.values = topic.values[:2] })
				for n := range regrown {
					topic.put(must(encodeRoom(life.Home, roomInfo(10+n))))
				}
				topic.setDown("a", false)
				time.Sleep(5 * time.Second)
				b := run(t, topic.as("b"), "b", newMemStore())
				if b.life() != life {
					t.Fatal("another life")
				}
				if got := sameLists(t, a, b); len(got) != 1+regrown {
					t.Fatalf("list %v", got)
				}
				a.mu.Lock()
				defer a.mu.Unlock()
				if a.rebuilt != 1 || len(a.alarms) != 1 || a.alarms[0].Kind != AlarmDirectoryDamaged || len(a.lives) != 1 {
					t.Fatalf("rebuilt %d, alarms %v, lives %v", a.rebuilt, a.alarms, a.lives)
				}
				if feed.Err() == nil || a.Feed() == feed {
					t.Fatal("the feed goes on over a list that went back")
				}
			})
		})
	}
}

func TestTail_FaultOfTheStoreIsWaitedOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		life := a.life()
		a.announce(1)
		a.store.setFault(errors.New("disk full"))
		topic.put(must(encodeRoom(life.Home, roomInfo(2))))
		time.Sleep(2 * time.Second)
		var over *domain.OverloadedError
		if _, err := a.ChatRoom(bounded(t), roomID(2)); !errors.As(err, &over) {
			t.Fatalf("lookup over a broken store: %v", err)
		}
		if err := a.Ready(); err == nil {
			t.Fatal("ready with a broken store")
		}
		a.store.setFault(nil)
		time.Sleep(2 * time.Second)
		if got := sameLists(t, a); len(got) != 2 {
			t.Fatalf("list %v", got)
		}
	})
}

func TestOwner_LaterReplacesEarlierAndEverybodySeesIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		all := three(t, topic)
		for _, i := range all {
			i.life()
		}
		for n, version := range []domain.Offset{0, 4, 9} {
			if err := all[n].AnnounceOwner(bounded(t), all[n].Claim(1), version); err != nil {
				t.Fatal(err)
			}
			if o := all[n].Owner(1); o.Version != version || o.Instance.ID != fmt.Sprintf("i%d", n) {
				t.Fatalf("own view: %+v", o)
			}
			for _, i := range all {
				if err := i.upToDate(bounded(t)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, i := range all {
			if o := i.Owner(1); o.Version != 9 || o.Instance != (domain.Instance{ID: "i2", URL: "http://i2"}) {
				t.Fatalf("owner %+v", o)
			}
			i.mu.Lock()
			if i.owners[1] != 3 || len(i.alarms) != 0 {
				t.Errorf("%d changes, alarms %v", i.owners[1], i.alarms)
			}
			i.mu.Unlock()
		}
	})
}

func TestOwner_ShardThatWentBackGetsANewLifeAndAnAlarm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		b := run(t, topic.as("b"), "b", newMemStore())
		a.life()
		b.life()
		if err := a.AnnounceOwner(bounded(t), a.Claim(1), 100); err != nil {
			t.Fatal(err)
		}
		if err := b.upToDate(bounded(t)); err != nil {
			t.Fatal(err)
		}
		if err := b.AnnounceOwner(bounded(t), b.Claim(1), 3); err != nil {
			t.Fatal(err)
		}
		if err := a.upToDate(bounded(t)); err != nil {
			t.Fatal(err)
		}
		if o := a.Owner(1); o.Version != 3 || o.Instance.ID != "b" {
			t.Fatalf("owner %+v", o)
		}
		want := Alarm{Kind: AlarmShardWentBack, Shard: 1, Have: 3, Want: 100}
		if len(b.alarms) != 1 || b.alarms[0] != want || len(a.alarms) != 0 {
			t.Fatalf("alarms %v", b.alarms)
		}
	})
}

func TestOwner_OfASlowPredecessorDoesNotReplaceTheSuccessor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		b := run(t, topic.as("b"), "b", newMemStore())
		a.life()
		b.life()
		claim := a.Claim(1) // a takes over at 5, b at 9, and b is faster
		if err := b.AnnounceOwner(bounded(t), b.Claim(1), 9); err != nil {
			t.Fatal(err)
		}
		if err := a.upToDate(bounded(t)); err != nil {
			t.Fatal(err)
		}
		if err := a.AnnounceOwner(bounded(t), claim, 5); err != nil {
			t.Fatal(err)
		}
		if o := a.Owner(1); o.Instance.ID != "b" || len(a.alarms) != 0 {
			t.Fatalf("owner %+v, alarms %v", o, a.alarms)
		}
	})
}

func TestResolve(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		b := run(t, topic.as("b"), "b", newMemStore())
		home := a.life().Home
		b.life()
		a.announce(1, 2, 3)
		rooms := a.list()
		hash := domain.RoomHash(roomID(3))
		cases := []struct {
			name string
			c    domain.ListCursor
			want domain.Serial
			bad  bool
		}{
			{"the newest, on an instance that may be behind", a.Cursor(rooms[2]), 3, false},
			{"in the middle", a.Cursor(rooms[1]), 2, false},
			{"before the first", a.Cursor(domain.ListedRoom{}), 0, false},
			{"before the first, given before a life was known", domain.ListCursor{}, 0, false},
			{"another life", domain.ListCursor{Home: uuid.Max, Serial: 3, Hash: hash}, 0, true},
			{"before the first of another life", domain.ListCursor{Home: uuid.Max}, 0, true},
			{"another room", domain.ListCursor{Home: home, Serial: 2, Hash: hash}, 0, true},
			{"ahead of the list", domain.ListCursor{Home: home, Serial: 4, Hash: hash}, 0, true},
		}
		for _, c := range cases {
			got, err := b.Resolve(bounded(t), c.c)
			var out *domain.CursorOutOfRangeError
			if errors.As(err, &out) != c.bad || got != c.want || !c.bad && err != nil {
				t.Errorf("%s: %d, %v", c.name, got, err)
			}
			if c.bad && (out.Oldest != a.Cursor(domain.ListedRoom{}).String() || out.Newest != a.Cursor(rooms[2]).String()) {
				t.Errorf("%s: %+v", c.name, out)
			}
		}
	})
}

func TestChatRooms_Pages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		a.life()
		a.announce(1, 2, 3)
		for _, c := range []struct {
			after domain.Serial
			limit int
			n     int
			more  bool
		}{{0, 2, 2, true}, {0, 3, 3, false}, {2, 2, 1, false}, {3, 2, 0, false}} {
			rooms, more, err := a.ChatRooms(bounded(t), c.after, c.limit)
			if err != nil || len(rooms) != c.n || more != c.more || c.n > 0 && rooms[0].Serial != c.after+1 {
				t.Errorf("after %d, %d: %v, %v, %v", c.after, c.limit, rooms, more, err)
			}
		}
	})
}

func TestFeed_WakesFollowersOfTheList(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		a.life()
		feed := a.Feed()
		wakes := make(chan struct{}, 10)
		stop := feed.Watch(func() { wakes <- struct{}{} })
		a.announce(1)
		synctest.Wait()
		if len(wakes) != 1 || feed.Tip() != 1 {
			t.Fatalf("%d wakes, tip %d", len(wakes), feed.Tip())
		}
		stop()
		a.announce(2)
		synctest.Wait()
		if len(wakes) != 1 || feed.Tip() != 2 || feed != a.Feed() || feed.Err() != nil {
			t.Fatalf("%d wakes, tip %d, %v", len(wakes), feed.Tip(), feed.Err())
		}
	})
}

func TestChecks_PartitionCountOtherThanPinnedIsAnAlarmOncePerChange(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		partitions := 4
		set := func(n int) { mu.Lock(); defer mu.Unlock(); partitions = n }
		a := run(t, newMemTopic().as("a"), "a", newMemStore(), func(c *Config) {
			c.Partitions = func(context.Context) (int, error) { mu.Lock(); defer mu.Unlock(); return partitions, nil }
		})
		a.life()
		time.Sleep(time.Minute)
		set(6)
		time.Sleep(time.Minute)
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.alarms) != 1 || a.alarms[0] != (Alarm{Kind: AlarmPartitions, Have: 6, Want: 4}) || a.ShardCount() != 4 {
			t.Fatalf("alarms %v, %d shards", a.alarms, a.ShardCount())
		}
	})
}

func TestChecks_IdleDirectoryWritesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		a.life()
		a.fault()
		before := topic.appends
		time.Sleep(time.Hour)
		if n := topic.appends - before; n != 0 {
			t.Fatalf("%d appends", n)
		}
	})
}

func TestStopped_AnswersAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := run(t, newMemTopic().as("a"), "a", newMemStore())
		a.life()
		a.announce(1)
		a.stop()
		began := time.Now()
		if err := a.Announce(bounded(t), roomInfo(2)); !errors.Is(err, errStopped) {
			t.Fatalf("announce: %v", err)
		}
		var over *domain.OverloadedError
		if _, err := a.ChatRoom(bounded(t), roomID(2)); !errors.As(err, &over) {
			t.Fatalf("lookup: %v", err)
		}
		if len(a.list()) != 1 || time.Since(began) > 0 {
			t.Fatalf("took %v", time.Since(began))
		}
	})
}

func TestTail_LostStoreIsReadAgainAndNothingIsUnknownMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		life := a.life()
		a.announce(1, 2, 3)
		if err := a.AnnounceOwner(bounded(t), a.Claim(1), 5); err != nil {
			t.Fatal(err)
		}
		feed, cursor := a.Feed(), a.Cursor(a.list()[1])
		a.store.lose()
		var over *domain.OverloadedError
		if _, err := a.ChatRoom(bounded(t), roomID(1)); err != nil && !errors.As(err, &over) {
			t.Fatalf("lookup over a lost store: %v", err)
		}
		if _, _, err := a.ChatRooms(bounded(t), 0, 10); err != nil && !errors.As(err, &over) {
			t.Fatalf("list over a lost store: %v", err)
		}
		time.Sleep(time.Second)
		if got := sameLists(t, a); len(got) != 3 || a.Life() != life || a.Owner(1).Version != 5 {
			t.Fatalf("list %v, owner %v", got, a.Owner(1))
		}
		if s, err := a.Resolve(bounded(t), cursor); s != 2 || err != nil {
			t.Fatalf("cursor: %d, %v", s, err)
		}
		if err := feed.Err(); !errors.As(err, &over) || a.Feed() == feed {
			t.Fatalf("the feed: %v", err)
		}
		if len(a.lives) != 1 || len(a.alarms) != 0 {
			t.Fatalf("lives %v, alarms %v", a.lives, a.alarms)
		}
	})
}

func TestNew_TakesALostStoreForAnEmptyOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		store := newMemStore()
		a := run(t, topic.as("a"), "a", store)
		life := a.life()
		a.announce(1, 2)
		a.stop()
		store.lose()
		b := run(t, topic.as("b"), "b", store)
		if b.life() != life || len(sameLists(t, b)) != 2 {
			t.Fatalf("life %v, list %v", b.Life(), b.list())
		}
	})
}

func TestLife_DeletedRecordsTakeTheHomeAlong(t *testing.T) {
	bubble(t, func(t *testing.T) {
		topic := newMemTopic()
		a := run(t, topic.as("a"), "a", newMemStore())
		old := a.life()
		a.announce(1, 2)
		topic.do(func() { topic.start, topic.values = topic.end(), nil })
		b := run(t, topic.as("b"), "b", newMemStore())
		now := b.life()
		time.Sleep(10 * time.Second)
		if now == old || a.life() != now {
			t.Fatalf("lives %v, %v, %v", old, now, a.Life())
		}
		b.announce(3)
		if got := sameLists(t, a, b); len(got) != 1 {
			t.Fatalf("list %v", got)
		}
	})
}
