package kafkasvc

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/local"
)

func listed(n int) domain.ListedRoom {
	return domain.ListedRoom{Serial: domain.Serial(n), Info: domain.ChatRoomInfo{
		ID: uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, n)), Name: fmt.Sprintf("room %d", n), Shard: 2, CreatedAt: 7,
	}}
}

func openDirectoryStore(t *testing.T) (*local.Store, *directoryStore) {
	t.Helper()
	store, err := local.Open(local.Config{Dir: local.InMemory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store, newDirectoryStore(store)
}

func TestDirectoryStore_HoldsWhatWasCommittedLast(t *testing.T) {
	store, s := openDirectoryStore(t)
	if p, owners, err := s.Load(); err != nil || p != (directory.Position{}) || owners != nil {
		t.Fatalf("empty: %+v, %v, %v", p, owners, err)
	}
	life := directory.Life{Home: uuid.New(), Shards: 4}
	start := directory.Position{Life: life, HomeAt: 3, Next: 3}
	if err := s.Reset(start); err != nil {
		t.Fatal(err)
	}
	if p, _, err := newDirectoryStore(store).Load(); err != nil || p != start {
		t.Fatalf("after a reset: %+v, %v", p, err)
	}
	c := directory.Changes{
		Position: directory.Position{Life: life, HomeAt: 3, Next: 9, Hash: 1 << 63, Rooms: 2},
		Rooms:    []domain.ListedRoom{listed(1), listed(2)},
		Owners: []directory.OwnerEntry{{Shard: 1, Life: 5, Owner: domain.Owner{
			Instance: domain.Instance{ID: "i", URL: "http://i"}, Version: 77,
		}}},
	}
	if err := s.Commit(c); err != nil {
		t.Fatal(err)
	}
	p, owners, err := newDirectoryStore(store).Load()
	if err != nil || p != c.Position || !slices.Equal(owners, c.Owners) {
		t.Fatalf("loaded %+v, %v, %v", p, owners, err)
	}
	rooms, err := s.Rooms(1, 10)
	if err != nil || !slices.Equal(rooms, c.Rooms[1:]) {
		t.Fatalf("rooms %v, %v", rooms, err)
	}
	if r, ok, err := s.Room(listed(1).Info.ID); err != nil || !ok || r != listed(1) {
		t.Fatalf("room %v, %v, %v", r, ok, err)
	}
	if _, ok, err := s.Room(uuid.New()); ok || err != nil {
		t.Fatalf("no room: %v, %v", ok, err)
	}
}

// An empty store must not look like a view without rooms, or the directory would say of every room that it is unknown.
func TestDirectoryStore_SaysSoWhenTheStoreWasStartedAnew(t *testing.T) {
	store, s := openDirectoryStore(t)
	p := directory.Position{Life: directory.Life{Home: uuid.New(), Shards: 4}}
	if err := s.Reset(p); err != nil {
		t.Fatal(err)
	}
	p.Next, p.Rooms = 1, 1
	if err := s.Commit(directory.Changes{Position: p, Rooms: []domain.ListedRoom{listed(1)}}); err != nil {
		t.Fatal(err)
	}
	if err := store.DropAll(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Room(listed(1).Info.ID); !errors.Is(err, directory.ErrViewLost) {
		t.Fatalf("room: %v", err)
	}
	if _, err := s.Rooms(0, 1); !errors.Is(err, directory.ErrViewLost) {
		t.Fatalf("rooms: %v", err)
	}
	p.Next = 2
	if err := s.Commit(directory.Changes{Position: p}); !errors.Is(err, directory.ErrViewLost) {
		t.Fatalf("commit: %v", err)
	}
	p.Next, p.Rooms = 0, 0
	if err := s.Reset(p); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Room(listed(1).Info.ID); ok || err != nil {
		t.Fatalf("after the reset: %v, %v", ok, err)
	}
}
