package kafkasvc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/local"
)

// directoryStore keeps the directory's view in the local store. It implements directory.Store.
//
// It holds on to the key space that Load or Reset took. When the store is started anew after a fault, that one is stale
// and says so, until the directory has Reset the view: an empty store must not look like a view without rooms.
type directoryStore struct {
	store *local.Store
	view  atomic.Pointer[local.DirectoryStore]
}

func newDirectoryStore(store *local.Store) *directoryStore {
	s := &directoryStore{store: store}
	s.view.Store(store.Directory())
	return s
}

// viewError tells the directory to read its topic again where the local data are gone or contradict themselves. A fault of
// the whole store is waited out: watchStore starts it anew.
func viewError(err error) error {
	if errors.Is(err, local.ErrStale) || errors.Is(err, local.ErrCorrupt) && !errors.Is(err, local.ErrFault) {
		return fmt.Errorf("%w: %w", directory.ErrViewLost, err)
	}
	return err
}

// The position of a view: home id, shards, offset of the Home, next offset, hash, rooms.
const markLen = 16 + 4 + 8 + 8 + 8 + 8

func mark(p directory.Position) []byte {
	b := append(make([]byte, 0, markLen), p.Life.Home[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(p.Life.Shards))
	b = binary.BigEndian.AppendUint64(b, uint64(p.HomeAt))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Next))
	b = binary.BigEndian.AppendUint64(b, p.Hash)
	return binary.BigEndian.AppendUint64(b, uint64(p.Rooms))
}

func readMark(b []byte) (p directory.Position) {
	p.Life.Home = uuid.UUID(b[:16])
	p.Life.Shards = int(binary.BigEndian.Uint32(b[16:]))
	p.HomeAt = domain.Offset(binary.BigEndian.Uint64(b[20:]))
	p.Next = domain.Offset(binary.BigEndian.Uint64(b[28:]))
	p.Hash = binary.BigEndian.Uint64(b[36:])
	p.Rooms = domain.Serial(binary.BigEndian.Uint64(b[44:]))
	return p
}

// Load implements directory.Store.
func (s *directoryStore) Load() (directory.Position, []directory.OwnerEntry, error) {
	p, owners, err := load(s.view.Load())
	return p, owners, viewError(err)
}

func load(d *local.DirectoryStore) (directory.Position, []directory.OwnerEntry, error) {
	b, err := d.Mark()
	if err != nil || b == nil {
		return directory.Position{}, nil, err
	}
	if len(b) != markLen {
		return directory.Position{}, nil, fmt.Errorf("%w: position of the directory", local.ErrCorrupt)
	}
	p := readMark(b)
	next, err := d.Offset()
	if err != nil {
		return directory.Position{}, nil, err
	}
	if next != p.Next && !(next == 0 && p.Next == p.HomeAt) { // the latter: nothing read yet
		return directory.Position{}, nil, fmt.Errorf("%w: two positions of the directory", local.ErrCorrupt)
	}
	rooms, err := d.RoomCount()
	if err != nil {
		return directory.Position{}, nil, err
	}
	if rooms != p.Rooms {
		return directory.Position{}, nil, fmt.Errorf("%w: rooms of the directory are missing", local.ErrCorrupt)
	}
	entries, err := d.Owners()
	owners := make([]directory.OwnerEntry, len(entries))
	for i, e := range entries {
		owners[i] = directory.OwnerEntry{Shard: e.Shard, Life: e.Life, Owner: domain.Owner{Instance: e.Instance, Version: e.Version}}
	}
	return p, owners, viewError(err)
}

// Room implements directory.Store.
func (s *directoryStore) Room(id uuid.UUID) (domain.ListedRoom, bool, error) {
	r, ok, err := s.view.Load().Room(id)
	return r, ok, viewError(err)
}

// Rooms implements directory.Store.
func (s *directoryStore) Rooms(after domain.Serial, limit int) ([]domain.ListedRoom, error) {
	rooms, err := s.view.Load().Rooms(after, limit)
	return rooms, viewError(err)
}

// Commit implements directory.Store.
func (s *directoryStore) Commit(c directory.Changes) error {
	e := s.view.Load().Edit()
	for _, r := range c.Rooms {
		e.PutRoom(r)
	}
	for _, o := range c.Owners {
		e.PutOwner(local.OwnerEntry{Shard: o.Shard, Life: o.Life, Version: o.Owner.Version, Instance: o.Owner.Instance})
	}
	e.SetOffset(c.Position.Next)
	e.SetMark(mark(c.Position))
	return viewError(e.Commit())
}

// Reset implements directory.Store.
func (s *directoryStore) Reset(p directory.Position) error {
	view := s.store.Directory()
	e := view.Edit()
	e.Restart()
	e.SetMark(mark(p))
	if err := e.Commit(); err != nil {
		return err
	}
	s.view.Store(view)
	return nil
}
