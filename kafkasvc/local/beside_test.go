package local_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/local"
)

// TestShard_ReadsBesideCommits: readers see a whole commit or none, whatever the writer is at.
func TestShard_ReadsBesideCommits(t *testing.T) {
	s := open(t, vfs.NewMem())
	sh := s.Shard(1)
	var l log
	room := roomID(1)
	l.room(room, "hall")
	f := sh.NewFold(local.Position{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for r := range 3 {
		wg.Go(func() {
			var seen domain.Serial
			for {
				select {
				case <-stop:
					return
				default:
				}
				page, err := sh.Read(room, domain.Range{Limit: 20, FromEnd: r == 0, After: seen * domain.Serial(r%2)})
				if err != nil {
					t.Error(err)
					return
				}
				if n := len(page.Messages); n > 0 && r < 2 {
					last := page.Messages[n-1].Serial
					if r == 0 && last%5 != 0 || last < seen {
						t.Errorf("serial %d after %d", last, seen)
					}
					seen = last
					m := page.Messages[0]
					if got, ok, err := sh.Find(room, m.User, m.ClientID); err != nil || !ok || got != m {
						t.Errorf("find %v: %v %v %v", m, got, ok, err)
					}
				}
			}
		})
	}
	for range 200 {
		for range 5 {
			l.message(room, "alice", fmt.Sprint(l.at()), "text")
		}
		l.apply(t, f)
		if err := f.Commit(nil); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}

// TestFold_HoldsNothingWhileTheGuardWaits: a tenure's critical section may read, also while DropAll waits.
func TestFold_HoldsNothingWhileTheGuardWaits(t *testing.T) {
	s := open(t, vfs.NewMem())
	sh := s.Shard(1)
	var l log
	l.room(roomID(1), "hall")
	f := sh.NewFold(local.Position{})
	l.apply(t, f)
	dropped := make(chan error)
	err := f.Commit(func(commit func() error) error {
		go func() { dropped <- s.DropAll() }()
		if err := <-dropped; err != nil {
			return err
		}
		if _, err := s.Shard(1).Position(); err != nil {
			return err
		}
		return commit()
	})
	if !errors.Is(err, local.ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
}

func TestShard_ListsManyRooms(t *testing.T) {
	s := open(t, vfs.NewMem())
	sh := s.Shard(1)
	var l log
	const n = 600
	for i := range n {
		l.room(roomID(i), fmt.Sprint(i))
	}
	f := sh.NewFold(local.Position{})
	l.apply(t, f)
	if err := f.Commit(nil); err != nil {
		t.Fatal(err)
	}
	for _, stop := range []int{1, 256, 257, n + 1} {
		count := 0
		if err := sh.EachRoom(func(info domain.ChatRoomInfo) bool {
			if info.ID != roomID(count) || info.Name != fmt.Sprint(count) {
				t.Errorf("room %d: %+v", count, info)
			}
			count++
			_, ok, err := sh.Room(info.ID)
			return count < stop && ok && err == nil
		}); err != nil || count != min(stop, n) {
			t.Errorf("%d rooms, %v", count, err)
		}
	}
}

// TestStore_ClosesBesideReaders: whoever comes late gets an error, nobody crashes.
func TestStore_ClosesBesideReaders(t *testing.T) {
	h := newHouse()
	s := open(t, vfs.NewMem())
	if err := h.fill(s); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 3 {
		sh := s.Shard(0)
		wg.Go(func() {
			for {
				_, err := sh.Read(roomID(1), domain.Range{Limit: 10})
				if errors.Is(err, local.ErrClosed) {
					return
				}
				if err != nil && !errors.Is(err, local.ErrStale) {
					t.Error(err)
					return
				}
			}
		})
	}
	if err := s.DropAll(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := s.Fault(); !errors.Is(err, local.ErrClosed) {
		t.Error(err)
	}
	if err := s.DropAll(); !errors.Is(err, local.ErrClosed) {
		t.Error(err)
	}
}

func TestDirectory_KeepsRoomsOwnersAndOffset(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	d := s.Directory()
	listed := func(serial domain.Serial, name string) domain.ListedRoom {
		return domain.ListedRoom{Serial: serial, Info: domain.ChatRoomInfo{ID: roomID(int(serial)), Name: name, Shard: 3, CreatedAt: 99}}
	}
	rooms := []domain.ListedRoom{listed(1, "one"), listed(2, ""), listed(3, "three")}
	owner := local.OwnerEntry{Shard: 7, Life: 2, Version: 500, Instance: domain.Instance{ID: "a", URL: "http://a"}}
	e := d.Edit()
	for _, r := range rooms {
		e.PutRoom(r)
	}
	e.PutOwner(owner)
	e.SetOffset(10)
	if err := e.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := e.Commit(); !errors.Is(err, local.ErrStale) {
		t.Errorf("the same again: %v", err)
	}
	rooms[1].Info.Name = "two"
	owner.Version, owner.Instance.ID = 600, "b"
	e = d.Edit()
	e.PutRoom(rooms[1])
	e.PutOwner(owner)
	e.SetOffset(12)
	if err := e.Commit(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if next, err := d.Offset(); err != nil || next != 12 {
			t.Errorf("offset %d %v", next, err)
		}
		if got, err := d.Rooms(0, 100); err != nil || !slices.Equal(got, rooms) {
			t.Errorf("rooms %v %v", got, err)
		}
		if got, err := d.Rooms(1, 1); err != nil || !slices.Equal(got, rooms[1:2]) {
			t.Errorf("rooms %v %v", got, err)
		}
		if got, ok, err := d.Room(roomID(2)); err != nil || !ok || got != rooms[1] {
			t.Errorf("room %v %v %v", got, ok, err)
		}
		if _, ok, err := d.Room(roomID(4)); err != nil || ok {
			t.Errorf("room %v %v", ok, err)
		}
		if n, err := d.RoomCount(); err != nil || n != 3 {
			t.Errorf("count %d %v", n, err)
		}
		if got, err := d.Owners(); err != nil || !slices.Equal(got, []local.OwnerEntry{owner}) {
			t.Errorf("owners %v %v", got, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, fs)
		d = s.Directory()
	}
	if err := d.Drop(); err != nil {
		t.Fatal(err)
	}
	next, err := d.Offset()
	n, countErr := d.RoomCount()
	owners, ownersErr := d.Owners()
	if err := errors.Join(err, countErr, ownersErr); err != nil || next != 0 || n != 0 || len(owners) != 0 {
		t.Errorf("after a drop: %d %d %v %v", next, n, owners, err)
	}
}

func TestStore_KeepsTheHomeUntilDropAll(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	if id, err := s.Home(); err != nil || id != [16]byte{} {
		t.Fatal(id, err)
	}
	if err := s.SetHome(roomID(1)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, fs)
	if id, err := s.Home(); err != nil || id != roomID(1) {
		t.Fatal(id, err)
	}
	if err := s.DropAll(); err != nil {
		t.Fatal(err)
	}
	if id, err := s.Home(); err != nil || id != [16]byte{} {
		t.Fatal(id, err)
	}
}

// TestShard_DropBesideACommit: whichever is first, nothing of before is left, and the fold hears of it.
func TestShard_DropBesideACommit(t *testing.T) {
	sh := open(t, vfs.NewMem()).Shard(1)
	stale := 0
	for range 500 {
		var l log
		l.room(roomID(1), "hall")
		f := sh.NewFold(local.Position{})
		l.apply(t, f)
		if err := f.Commit(nil); err != nil {
			t.Fatal(err)
		}
		l.message(roomID(1), "alice", "1", "text")
		l.apply(t, f)
		var commits atomic.Bool
		if err := f.CommitBeside(func(commit func() error) error { commits.Store(true); return commit() }); err != nil {
			t.Fatal(err)
		}
		for !commits.Load() { // without a sleep, which would let the commit get away
		}
		if err := sh.Drop(); err != nil {
			t.Fatal(err)
		}
		switch err := f.Wait(); {
		case errors.Is(err, local.ErrStale):
			stale++
		case err != nil:
			t.Fatal(err)
		}
		if p, err := sh.Position(); err != nil || p != (local.Position{}) {
			t.Fatalf("left behind: %+v, %v", p, err)
		}
	}
	t.Logf("%d of 500 commits came too late", stale)
}
