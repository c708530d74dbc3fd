package directory

import (
	"errors"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// Position is how far a view has read, and of what.
type Position struct {
	Life   Life
	HomeAt domain.Offset // where the Home of Life stands
	Next   domain.Offset // everything below was read; 0: nothing
	Hash   uint64        // of the value at Next-1
	Rooms  domain.Serial // number of rooms: serial of the newest
}

// OwnerEntry is what the directory says of one shard. It is replaced only by a higher (Life, Version).
type OwnerEntry struct {
	Shard domain.ShardID
	Life  int64 // counts the lives of the shard's partition
	Owner domain.Owner
}

func (e OwnerEntry) less(o OwnerEntry) bool {
	return e.Life < o.Life || e.Life == o.Life && e.Owner.Version < o.Owner.Version
}

// Changes are what a run of records changes.
type Changes struct {
	Position Position            // behind the last record
	Rooms    []domain.ListedRoom // new ones, in order of serial
	Owners   []OwnerEntry        // at most one a shard
}

// ErrViewLost is what a Store answers, wrapped, when what it held is gone or contradicts itself, until it is Reset. The
// directory then reads the topic again.
var ErrViewLost = errors.New("directory: the stored view is lost")

// Store keeps the view, so that a restart reads only what is new and memory does not grow with the rooms. Reads may run
// beside each other and beside one write.
type Store interface {
	// Load returns what was committed last; the zero Position where there is nothing.
	Load() (Position, []OwnerEntry, error)
	// Room finds a room by id.
	Room(id uuid.UUID) (domain.ListedRoom, bool, error)
	// Rooms lists at most limit rooms behind after, in order of serial.
	Rooms(after domain.Serial, limit int) ([]domain.ListedRoom, error)
	// Commit writes c in one atomic batch. c is not kept.
	Commit(c Changes) error
	// Reset drops everything and starts at p, atomically.
	Reset(p Position) error
}
