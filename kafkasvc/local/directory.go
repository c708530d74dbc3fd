package local

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// DirectoryStore is what an instance has read of the directory topic. Its methods may be called from any goroutine;
// one goroutine edits. After DropAll of the store every method answers ErrStale.
type DirectoryStore struct {
	store *Store
	epoch uint64
}

// OwnerEntry is the last known owner of a shard. A higher (Life, Version) is a later ownership; comparing is the
// caller's.
type OwnerEntry struct {
	Shard    domain.ShardID
	Life     int64
	Version  domain.Offset
	Instance domain.Instance
}

// Directory is the directory's key space. Take a new one after DropAll.
func (s *Store) Directory() *DirectoryStore {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return &DirectoryStore{store: s, epoch: s.epoch}
}

// Offset is the first offset of the directory topic that is not part of the data; 0 if there are none. ErrCorrupt: a
// commit is missing; Drop and read again.
func (d *DirectoryStore) Offset() (domain.Offset, error) {
	db, release, err := d.store.use(d.epoch)
	if err != nil {
		return 0, err
	}
	defer release()
	p, err := d.position(db)
	return p.Next, err
}

// Mark is what SetMark kept last; nil if nothing.
func (d *DirectoryStore) Mark() ([]byte, error) {
	db, release, err := d.store.use(d.epoch)
	if err != nil {
		return nil, err
	}
	defer release()
	mark, _, err := db.get(keyDirectoryMark)
	return mark, err
}

func (d *DirectoryStore) position(db *database) (Position, error) {
	value, ok, err := db.get(keyDirectoryChain)
	if err != nil || !ok {
		return Position{}, err
	}
	return readPosition(value)
}

// Drop forgets the directory. An Edit of before must not be committed.
func (d *DirectoryStore) Drop() error {
	db, release, err := d.store.use(d.epoch)
	if err != nil {
		return err
	}
	defer release()
	b := db.NewBatch()
	if err := b.DeleteRange([]byte{spaceDirectory}, []byte{spaceDirectory + 1}, nil); err != nil {
		return fmt.Errorf("drop the directory: %w", err)
	}
	return db.apply(b)
}

// Room looks a room up. ok is false where it was never announced.
func (d *DirectoryStore) Room(id uuid.UUID) (room domain.ListedRoom, ok bool, err error) {
	db, release, err := d.store.use(d.epoch)
	if err != nil {
		return room, false, err
	}
	defer release()
	var key [maxKeyLen]byte
	serial, ok, err := db.get(appendListIndexKey(key[:0], &id))
	if err != nil || !ok {
		return room, false, err
	}
	if len(serial) != 8 {
		return room, false, fmt.Errorf("%w: room list index", ErrCorrupt)
	}
	room.Serial = domain.Serial(binary.BigEndian.Uint64(serial))
	row, ok, err := db.get(appendListKey(key[:0], room.Serial))
	if err == nil && !ok {
		err = fmt.Errorf("%w: a room is missing in the room list", ErrCorrupt)
	}
	if err != nil {
		return room, false, err
	}
	room.Info, err = readListRow(row)
	if err == nil && room.Info.ID != id {
		err = fmt.Errorf("%w: another room in the room list", ErrCorrupt)
	}
	return room, err == nil, err
}

// Rooms lists at most limit rooms behind after, in order of serial.
func (d *DirectoryStore) Rooms(after domain.Serial, limit int) ([]domain.ListedRoom, error) {
	db, release, err := d.store.use(d.epoch)
	if err != nil {
		return nil, err
	}
	defer release()
	it, err := db.NewIter(listBounds(max(after, 0) + 1))
	if err := db.check(err); err != nil {
		return nil, err
	}
	rooms := make([]domain.ListedRoom, 0, max(min(limit, 1000), 0))
	for ok := it.First(); ok && len(rooms) < limit && err == nil; ok = it.Next() {
		room := domain.ListedRoom{}
		if room.Serial, err = listSerial(it.Key()); err == nil {
			room.Info, err = readListRow(it.Value())
		}
		rooms = append(rooms, room)
	}
	if e := db.check(it.Close()); e != nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return rooms, nil
}

// RoomCount is the serial of the newest room, 0 if there is none.
func (d *DirectoryStore) RoomCount() (domain.Serial, error) {
	db, release, err := d.store.use(d.epoch)
	if err != nil {
		return 0, err
	}
	defer release()
	it, err := db.NewIter(listBounds(0))
	if err := db.check(err); err != nil {
		return 0, err
	}
	var serial domain.Serial
	if it.Last() {
		serial, err = listSerial(it.Key())
	}
	if e := db.check(it.Close()); e != nil {
		err = e
	}
	return serial, err
}

// Owners lists the known owners in order of shard.
func (d *DirectoryStore) Owners() ([]OwnerEntry, error) {
	db, release, err := d.store.use(d.epoch)
	if err != nil {
		return nil, err
	}
	defer release()
	it, err := db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{spaceDirectory, tableOwner},
		UpperBound: []byte{spaceDirectory, tableOwner + 1},
	})
	if err := db.check(err); err != nil {
		return nil, err
	}
	var owners []OwnerEntry
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var o OwnerEntry
		o, err = readOwner(it.Key(), it.Value())
		owners = append(owners, o)
	}
	if e := db.check(it.Close()); e != nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return owners, nil
}

// Edit begins a change of the directory. Nothing shows before Commit. One Edit at a time.
func (d *DirectoryStore) Edit() *DirectoryEdit { return &DirectoryEdit{dir: d} }

// DirectoryEdit collects changes and the offset that they belong to.
type DirectoryEdit struct {
	dir    *DirectoryStore
	rooms  []domain.ListedRoom
	owners []OwnerEntry
	offset domain.Offset
	mark   []byte
	anew   bool
}

// SetMark keeps a few bytes of the caller's with the offset.
func (e *DirectoryEdit) SetMark(mark []byte) { e.mark = mark }

// Restart drops everything of before in the same batch. The offset need not grow then; 0 is for nothing read yet.
func (e *DirectoryEdit) Restart() { e.anew = true }

// PutRoom adds a room to the list or replaces it (a name that was not known before).
func (e *DirectoryEdit) PutRoom(room domain.ListedRoom) { e.rooms = append(e.rooms, room) }

// PutOwner replaces the entry of a shard.
func (e *DirectoryEdit) PutOwner(o OwnerEntry) { e.owners = append(e.owners, o) }

// SetOffset notes how far the changes go: the first offset that is not part of them.
func (e *DirectoryEdit) SetOffset(next domain.Offset) { e.offset = next }

// Commit writes all changes and the offset in one batch, unsynced. An offset that does not grow is ErrStale.
func (e *DirectoryEdit) Commit() error {
	s := e.dir.store
	db, release, err := s.use(e.dir.epoch)
	if err != nil {
		return err
	}
	defer release()
	s.dirMu.Lock()
	defer s.dirMu.Unlock()
	var p Position
	if !e.anew {
		if p, err = e.dir.position(db); err != nil {
			return err
		}
		if e.offset <= p.Next {
			return fmt.Errorf("%w: directory offset %d, stored %d", ErrStale, e.offset, p.Next)
		}
	}
	l := link{Position: p, from: p.Next}
	if p.Empty() {
		if l.build, err = drawBuild(); err != nil {
			return err
		}
	}
	l.Next = e.offset
	batch := db.NewBatch()
	var key [maxKeyLen]byte
	var errs []error
	if e.anew {
		errs = append(errs, batch.DeleteRange([]byte{spaceDirectory}, []byte{spaceDirectory + 1}, nil))
	}
	if e.mark != nil {
		errs = append(errs, batch.Set(keyDirectoryMark, e.mark, nil))
	}
	for i := range e.rooms {
		r := &e.rooms[i]
		errs = append(errs,
			batch.Set(appendListKey(key[:0], r.Serial), appendListRow(nil, &r.Info), nil),
			batch.Set(appendListIndexKey(key[:0], &r.Info.ID), binary.BigEndian.AppendUint64(nil, uint64(r.Serial)), nil))
	}
	for i := range e.owners {
		errs = append(errs, batch.Set(appendOwnerKey(key[:0], e.owners[i].Shard), appendOwner(nil, &e.owners[i]), nil))
	}
	if e.offset > p.Next {
		errs = append(errs, batch.Merge(keyDirectoryChain, l.append(nil), nil))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("change the directory: %w", err)
	}
	if err := db.apply(batch); err != nil {
		return fmt.Errorf("change the directory: %w", err)
	}
	return nil
}

func listBounds(from domain.Serial) *pebble.IterOptions {
	return &pebble.IterOptions{
		LowerBound: appendListKey(nil, from),
		UpperBound: []byte{spaceDirectory, tableRoom + 1},
	}
}

func listSerial(key []byte) (domain.Serial, error) {
	if len(key) != 2+8 {
		return 0, fmt.Errorf("%w: room list key", ErrCorrupt)
	}
	return domain.Serial(binary.BigEndian.Uint64(key[2:])), nil
}

// A room of the list: uuid, shard (4 bytes), varint creation, name.
func appendListRow(dst []byte, info *domain.ChatRoomInfo) []byte {
	dst = append(dst, info.ID[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(info.Shard))
	return append(binary.AppendVarint(dst, int64(info.CreatedAt)), info.Name...)
}

func readListRow(b []byte) (domain.ChatRoomInfo, error) {
	if len(b) < 16+4+1 {
		return domain.ChatRoomInfo{}, fmt.Errorf("%w: room list row", ErrCorrupt)
	}
	return readRoomName(uuid.UUID(b[:16]), domain.ShardID(binary.BigEndian.Uint32(b[16:])), b[20:])
}

// An owner: life and version (8 bytes each), uvarint length of the instance id, id, URL.
func appendOwner(dst []byte, o *OwnerEntry) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(o.Life))
	dst = binary.BigEndian.AppendUint64(dst, uint64(o.Version))
	dst = append(binary.AppendUvarint(dst, uint64(len(o.Instance.ID))), o.Instance.ID...)
	return append(dst, o.Instance.URL...)
}

func readOwner(key, value []byte) (OwnerEntry, error) {
	if len(key) != 2+4 || len(value) < 17 {
		return OwnerEntry{}, errOwner()
	}
	o := OwnerEntry{
		Shard:   domain.ShardID(binary.BigEndian.Uint32(key[2:])),
		Life:    int64(binary.BigEndian.Uint64(value)),
		Version: domain.Offset(binary.BigEndian.Uint64(value[8:])),
	}
	length, n := binary.Uvarint(value[16:])
	rest := value[16+max(n, 0):]
	if n <= 0 || length > uint64(len(rest)) {
		return OwnerEntry{}, errOwner()
	}
	o.Instance = domain.Instance{ID: string(rest[:length]), URL: string(rest[length:])}
	return o, nil
}

func errOwner() error { return fmt.Errorf("%w: owner", ErrCorrupt) }
