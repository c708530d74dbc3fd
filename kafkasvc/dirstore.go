package kafkasvc

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/local"
)

// directoryStore keeps the directory's view in the local store. It implements directory.Store.
type directoryStore struct{ store *local.Store }

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
func (s directoryStore) Load() (directory.Position, []directory.OwnerEntry, error) {
	d := s.store.Directory()
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
	if next != 0 && next != p.Next {
		return directory.Position{}, nil, fmt.Errorf("%w: two positions of the directory", local.ErrCorrupt)
	}
	entries, err := d.Owners()
	owners := make([]directory.OwnerEntry, len(entries))
	for i, e := range entries {
		owners[i] = directory.OwnerEntry{Shard: e.Shard, Life: e.Life, Owner: domain.Owner{Instance: e.Instance, Version: e.Version}}
	}
	return p, owners, err
}

// Room implements directory.Store.
func (s directoryStore) Room(id uuid.UUID) (domain.ListedRoom, bool, error) {
	return s.store.Directory().Room(id)
}

// Rooms implements directory.Store.
func (s directoryStore) Rooms(after domain.Serial, limit int) ([]domain.ListedRoom, error) {
	return s.store.Directory().Rooms(after, limit)
}

// Commit implements directory.Store.
func (s directoryStore) Commit(c directory.Changes) error {
	e := s.store.Directory().Edit()
	for _, r := range c.Rooms {
		e.PutRoom(r)
	}
	for _, o := range c.Owners {
		e.PutOwner(local.OwnerEntry{Shard: o.Shard, Life: o.Life, Version: o.Owner.Version, Instance: o.Owner.Instance})
	}
	e.SetOffset(c.Position.Next)
	e.SetMark(mark(c.Position))
	return e.Commit()
}

// Reset implements directory.Store.
func (s directoryStore) Reset(p directory.Position) error {
	e := s.store.Directory().Edit()
	e.Restart()
	e.SetMark(mark(p))
	return e.Commit()
}
