package directory

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record/logpb"
)

var (
	homeA = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000000")
	homeB = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000000")
)

func roomID(n int) uuid.UUID {
	return uuid.MustParse(fmt.Sprintf("00000000-0000-4000-8000-%012d", n))
}

func roomInfo(n int) domain.ChatRoomInfo {
	return domain.ChatRoomInfo{ID: roomID(n), Name: fmt.Sprintf("room %d", n), CreatedAt: domain.Millis(n)}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func opened(shard, life, version int, instance string) OwnerEntry {
	return OwnerEntry{Shard: domain.ShardID(shard), Life: int64(life), Owner: domain.Owner{
		Instance: domain.Instance{ID: instance, URL: "http://" + instance}, Version: domain.Offset(version),
	}}
}

// emptyFold is of a life with 4 shards whose Home stands at 0.
func emptyFold() *fold {
	return newFold(Position{Life: Life{homeA, 4}},
		func(uuid.UUID) (bool, error) { return false, nil },
		func(domain.ShardID) (OwnerEntry, bool) { return OwnerEntry{}, false })
}

func TestFold_DecidesWhatARecordChanges(t *testing.T) {
	home := must(encodeHome(Life{homeA, 4}))
	room1 := must(encodeRoom(homeA, roomInfo(1)))
	cases := []struct {
		name   string
		before [][]byte
		value  []byte
		want   verdict
	}{
		{"a room that is new", nil, room1, changed},
		{"a room again", [][]byte{room1}, room1, repeated},
		{"a room again with another name: the first holds", [][]byte{room1},
			must(encodeRoom(homeA, domain.ChatRoomInfo{ID: roomID(1), Name: "other"})), repeated},
		{"a room written for another life", nil, must(encodeRoom(homeB, roomInfo(1))), foreign},
		{"an owner written for another life", nil, must(encodeOwner(homeB, opened(1, 0, 5, "a"))), foreign},
		{"the home", nil, home, repeated},
		{"a home that came second", nil, must(encodeHome(Life{homeB, 9})), repeated},
		{"a barrier", nil, must(encodeBarrier(homeA)), barrier},
		{"an owner", nil, must(encodeOwner(homeA, opened(1, 0, 5, "a"))), changed},
		{"the same owner", [][]byte{must(encodeOwner(homeA, opened(1, 0, 5, "a")))},
			must(encodeOwner(homeA, opened(1, 0, 5, "a"))), repeated},
		{"a later owner", [][]byte{must(encodeOwner(homeA, opened(1, 0, 5, "a")))},
			must(encodeOwner(homeA, opened(1, 0, 6, "b"))), changed},
		{"an earlier owner", [][]byte{must(encodeOwner(homeA, opened(1, 0, 5, "a")))},
			must(encodeOwner(homeA, opened(1, 0, 4, "b"))), outdated},
		{"another owner of the same version", [][]byte{must(encodeOwner(homeA, opened(1, 0, 5, "a")))},
			must(encodeOwner(homeA, opened(1, 0, 5, "b"))), outdated},
		{"a later life with a lower version", [][]byte{must(encodeOwner(homeA, opened(1, 0, 5, "a")))},
			must(encodeOwner(homeA, opened(1, 1, 0, "b"))), changed},
		{"an earlier life with a higher version", [][]byte{must(encodeOwner(homeA, opened(1, 1, 0, "a")))},
			must(encodeOwner(homeA, opened(1, 0, 99, "b"))), outdated},
		{"an owner of a shard that is not pinned", nil, must(encodeOwner(homeA, opened(4, 0, 5, "a"))), junk},
		{"nothing", nil, nil, junk},
		{"a transaction marker", nil, []byte{0, 0, 0, 0, 0, 0}, junk},
		{"text", nil, []byte("hello"), junk},
		{"a room without an id", nil, must(proto.Marshal(&logpb.DirectoryRecord{WrittenFor: homeA[:],
			Kind: &logpb.DirectoryRecord_RoomAnnounced{RoomAnnounced: &logpb.RoomAnnounced{Name: "x"}}})), junk},
		{"a room without a life", nil, must(proto.Marshal(&logpb.DirectoryRecord{
			Kind: &logpb.DirectoryRecord_RoomAnnounced{RoomAnnounced: &logpb.RoomAnnounced{Room: homeB[:]}}})), junk},
		{"a kind of a later version", nil, append(must(proto.Marshal(&logpb.DirectoryRecord{WrittenFor: homeA[:]})),
			6<<3|2, 0), unknown},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := emptyFold()
			all := append([][]byte{home}, c.before...)
			for i, v := range all {
				if _, err := f.apply(domain.Offset(i), v); err != nil {
					t.Fatal(err)
				}
			}
			got, err := f.apply(domain.Offset(len(all)), c.value)
			if err != nil || got != c.want {
				t.Fatalf("apply: %v, %v; want %v", got, err, c.want)
			}
			if want := domain.Offset(len(all) + 1); f.pos.Next != want || f.pos.Hash != hash(c.value) {
				t.Fatalf("position %+v: want next %d and the hash of the last value", f.pos, want)
			}
		})
	}
}

func TestFold_GivesShardAndSerialInOrderOfFirstAnnouncement(t *testing.T) {
	f := emptyFold()
	for i, n := range []int{3, 1, 3, 2, 1} {
		if _, err := f.apply(domain.Offset(i), must(encodeRoom(homeA, roomInfo(n)))); err != nil {
			t.Fatal(err)
		}
	}
	var want []domain.ListedRoom
	for i, n := range []int{3, 1, 2} {
		info := roomInfo(n)
		info.Shard = domain.ShardOf(info.ID, 4)
		want = append(want, domain.ListedRoom{Serial: domain.Serial(i + 1), Info: info})
	}
	if !slices.Equal(f.rooms, want) {
		t.Fatalf("rooms %v, want %v", f.rooms, want)
	}
}

func TestEncodeRoom_AnnouncesABrokenNameAsNone(t *testing.T) {
	for _, name := range []string{"\xff", string(make([]byte, maxNameBytes+1))} {
		r := decode(must(encodeRoom(homeA, domain.ChatRoomInfo{ID: roomID(1), Name: name})))
		if r.kind != kindRoom || r.room.Name != "" {
			t.Fatalf("decoded %+v", r)
		}
	}
}

// drawRecords draws a topic behind its Home.
func drawRecords(t *rapid.T) [][]byte {
	room := rapid.Custom(func(t *rapid.T) []byte {
		home := rapid.SampledFrom([]uuid.UUID{homeA, homeA, homeA, homeB}).Draw(t, "home")
		return must(encodeRoom(home, roomInfo(rapid.IntRange(1, 9).Draw(t, "room"))))
	})
	owner := rapid.Custom(func(t *rapid.T) []byte {
		return must(encodeOwner(homeA, opened(rapid.IntRange(0, 4).Draw(t, "shard"), rapid.IntRange(0, 2).Draw(t, "life"),
			rapid.IntRange(0, 5).Draw(t, "version"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "instance"))))
	})
	other := rapid.SampledFrom([][]byte{nil, {1}, must(encodeBarrier(homeA)), must(encodeHome(Life{homeB, 7}))})
	return rapid.SliceOfN(rapid.OneOf(room, owner, other), 0, 60).Draw(t, "records")
}

// apply folds records into a store, with a commit after each part.
func foldInto(t *rapid.T, s *memStore, records [][]byte, commit func(i int) bool) {
	known := func(id uuid.UUID) (bool, error) { _, ok, err := s.Room(id); return ok, err }
	owner := func(id domain.ShardID) (OwnerEntry, bool) { e, ok := s.owners[id]; return e, ok }
	f := newFold(s.pos, known, owner)
	for i := int(s.pos.Next); i < len(records); i++ {
		if _, err := f.apply(domain.Offset(i), records[i]); err != nil {
			t.Fatal(err)
		}
		if commit(i) || i == len(records)-1 {
			if err := s.Commit(f.changes()); err != nil {
				t.Fatal(err)
			}
			f = newFold(s.pos, known, owner)
		}
	}
}

func TestFold_IsTheSameHoweverItIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		one, many := newMemStore(), newMemStore()
		one.pos.Life, many.pos.Life = Life{homeA, 4}, Life{homeA, 4}
		foldInto(t, one, records, func(int) bool { return false })
		foldInto(t, many, records, func(int) bool { return rapid.Bool().Draw(t, "commit") })
		if one.pos != many.pos || !slices.Equal(one.rooms, many.rooms) || fmt.Sprint(one.owners) != fmt.Sprint(many.owners) {
			t.Fatalf("in one piece %+v %v %v\nin many %+v %v %v", one.pos, one.rooms, one.owners, many.pos, many.rooms, many.owners)
		}
		if int(one.pos.Rooms) != len(one.rooms) {
			t.Fatalf("%d rooms, the position says %d", len(one.rooms), one.pos.Rooms)
		}
		for i, r := range one.rooms {
			if r.Serial != domain.Serial(i+1) {
				t.Fatalf("room %d has serial %d", i, r.Serial)
			}
		}
	})
}

func TestFold_RepetitionsDoNoHarm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := drawRecords(t)
		plain, twice := newMemStore(), newMemStore()
		plain.pos.Life, twice.pos.Life = Life{homeA, 4}, Life{homeA, 4}
		foldInto(t, plain, records, func(int) bool { return false })
		var more [][]byte
		for i, r := range records {
			more = append(more, r)
			for rapid.IntRange(0, 3).Draw(t, "again") == 0 {
				more = append(more, records[rapid.IntRange(0, i).Draw(t, "which")])
			}
		}
		foldInto(t, twice, more, func(int) bool { return false })
		if !slices.Equal(plain.rooms, twice.rooms) || fmt.Sprint(plain.owners) != fmt.Sprint(twice.owners) {
			t.Fatalf("once %v %v\nwith repetitions %v %v", plain.rooms, plain.owners, twice.rooms, twice.owners)
		}
	})
}

func TestClaimed_StartsANewLifeOnlyWhenTheShardWentBack(t *testing.T) {
	self := opened(0, 0, 0, "me").Owner.Instance
	cases := []struct {
		name    string
		claim   Claim
		now     OwnerEntry
		version domain.Offset
		life    int64
		back    bool
	}{
		{"the first owner", Claim{}, OwnerEntry{}, 0, 0, false},
		{"a later owner", Claim{any: true, known: opened(0, 2, 7, "x")}, opened(0, 2, 7, "x"), 8, 2, false},
		{"landed below what was known", Claim{any: true, known: opened(0, 2, 7, "x")}, opened(0, 2, 7, "x"), 3, 3, true},
		{"landed at what was known", Claim{any: true, known: opened(0, 2, 7, "x")}, opened(0, 2, 7, "x"), 7, 3, true},
		{"says the same again", Claim{any: true, known: opened(0, 2, 7, "me")}, opened(0, 2, 7, "me"), 7, 2, false},
		{"a successor was faster", Claim{any: true, known: opened(0, 0, 3, "x")}, opened(0, 0, 9, "y"), 5, 0, false},
		{"a successor was faster where nobody was known", Claim{}, opened(0, 0, 9, "y"), 5, 0, false},
		{"went back, and another saw it first", Claim{any: true, known: opened(0, 0, 9, "x")}, opened(0, 1, 2, "y"), 1, 1, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			e, back := claimed(c.claim, c.now, self, c.version)
			if e.Life != c.life || back != c.back || e.Owner.Version != c.version || e.Owner.Instance != self {
				t.Fatalf("claimed %+v, back %v; want life %d, back %v", e, back, c.life, c.back)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(must(encodeHome(Life{homeA, 4})))
	f.Add(must(encodeRoom(homeA, roomInfo(1))))
	f.Add(must(encodeOwner(homeA, opened(1, 2, 3, "a"))))
	f.Add(must(encodeBarrier(homeA)))
	f.Add([]byte{0, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, value []byte) {
		// What decodes and is encoded again decodes to the same: nothing of it is believed that we would not say.
		r := decode(value)
		var again []byte
		switch r.kind {
		case kindHome:
			again = must(encodeHome(r.life))
		case kindRoom:
			again = must(encodeRoom(r.home, r.room))
		case kindOwner:
			again = must(encodeOwner(r.home, r.own))
		case kindBarrier:
			again = must(encodeBarrier(r.home))
		default:
			return
		}
		if got := decode(again); got != r {
			t.Fatalf("decoded %+v, and again %+v", r, got)
		}
	})
}
