package local

import (
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// Shard is the local data of one shard. Its methods may be called from any goroutine; only one Fold at a time may
// be in use. After DropAll of the store every method answers ErrStale.
//
// What a read costs does not depend on the length of the history.
type Shard struct {
	store *Store
	id    domain.ShardID
	epoch uint64
	state *shardState
}

// shardState is what all Shards of one number share.
type shardState struct {
	// writes is held while a commit or Drop is handed to Pebble, and while it looks at drops before or counts them
	// after: a commit that looked before a Drop must not be written after it.
	writes sync.Mutex

	mu    sync.Mutex
	drops int           // counts Drop: a Fold of before is stale
	next  domain.Offset // as in Position, once known: bounds the levels of the index that are read
	known bool
}

func (s *shardState) dropped() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drops++
	s.next, s.known = 0, true
}

func (s *shardState) committed(next domain.Offset) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.known = next, true
}

func (s *shardState) get() (drops int, next domain.Offset, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drops, s.next, s.known
}

// Position says how far the data go. ErrCorrupt: a commit is missing; Drop the shard.
func (sh *Shard) Position() (Position, error) {
	db, release, err := sh.store.use(sh.epoch)
	if err != nil {
		return Position{}, err
	}
	defer release()
	return sh.position(db)
}

func (sh *Shard) position(db *database) (Position, error) {
	var key [maxKeyLen]byte
	value, ok, err := db.get(appendShardKey(key[:0], sh.id, tableChain))
	if err != nil || !ok {
		return Position{}, err
	}
	return readPosition(value)
}

// Drop forgets the data of this shard. Folds of before are stale.
func (sh *Shard) Drop() error {
	db, release, err := sh.store.use(sh.epoch)
	if err != nil {
		return err
	}
	defer release()
	b := db.NewBatch()
	from, to := shardRange(sh.id)
	if err := b.DeleteRange(from, to, nil); err != nil {
		return fmt.Errorf("drop shard %d: %w", sh.id, err)
	}
	sh.state.writes.Lock()
	defer sh.state.writes.Unlock()
	if err := db.apply(b); err != nil {
		return fmt.Errorf("drop shard %d: %w", sh.id, err)
	}
	sh.state.dropped()
	return nil
}

// Room is a room as it stands. ok is false where there is none.
func (sh *Shard) Room(id uuid.UUID) (room domain.ChatRoom, ok bool, err error) {
	db, release, err := sh.store.use(sh.epoch)
	if err != nil {
		return room, false, err
	}
	defer release()
	state, ok, err := sh.room(db, &id)
	if err != nil || !ok {
		return room, false, err
	}
	var key [maxKeyLen]byte
	name, ok, err := db.get(appendRoomKey(key[:0], sh.id, tableName, &id))
	if err == nil && !ok {
		err = fmt.Errorf("%w: a room without a name", ErrCorrupt)
	}
	if err != nil {
		return room, false, err
	}
	info, err := readRoomName(id, sh.id, name)
	return domain.ChatRoom{Info: info, Last: state.last, LastAt: state.lastAt}, err == nil, err
}

func (sh *Shard) room(db *database, id *uuid.UUID) (state roomState, ok bool, err error) {
	var key [maxKeyLen]byte
	value, closer, err := db.open(appendRoomKey(key[:0], sh.id, tableRoom, id))
	if err != nil || closer == nil {
		return state, false, err
	}
	state, err = readRoomState(value)
	if e := db.check(closer.Close()); err == nil {
		err = e
	}
	return state, err == nil, err
}

// EachRoom calls visit with every room in order of id, until it answers false. Rooms that are created meanwhile may
// or may not be among them.
func (sh *Shard) EachRoom(visit func(domain.ChatRoomInfo) bool) error {
	from := appendShardKey(nil, sh.id, tableName)
	for {
		rooms, err := sh.someRooms(from)
		if err != nil {
			return err
		}
		for _, info := range rooms {
			if !visit(info) {
				return nil
			}
		}
		if len(rooms) < roomsAtOnce {
			return nil
		}
		last := rooms[len(rooms)-1].ID
		from = append(appendRoomKey(from[:0], sh.id, tableName, &last), 0)
	}
}

// roomsAtOnce: visit is called with nothing of the store held, so that it may use the store.
const roomsAtOnce = 256

func (sh *Shard) someRooms(from []byte) (rooms []domain.ChatRoomInfo, err error) {
	db, release, err := sh.store.use(sh.epoch)
	if err != nil {
		return nil, err
	}
	defer release()
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: appendShardKey(nil, sh.id, tableName+1)})
	if err := db.check(err); err != nil {
		return nil, err
	}
	for ok := it.First(); ok && len(rooms) < roomsAtOnce && err == nil; ok = it.Next() {
		var info domain.ChatRoomInfo
		info, err = sh.nameRow(it.Key(), it.Value())
		rooms = append(rooms, info)
	}
	if e := db.check(it.Close()); e != nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	return rooms, nil
}

func (sh *Shard) nameRow(key, value []byte) (domain.ChatRoomInfo, error) {
	if len(key) != roomKeyLen {
		return domain.ChatRoomInfo{}, fmt.Errorf("%w: room key", ErrCorrupt)
	}
	return readRoomName(uuid.UUID(key[shardKeyLen:]), sh.id, value)
}

// Oldest is the serial of the room's oldest message, 0 where there is no message: history that was deleted from
// the log before the data were built is gone.
func (sh *Shard) Oldest(room uuid.UUID) (domain.Serial, error) {
	db, release, err := sh.store.use(sh.epoch)
	if err != nil {
		return 0, err
	}
	defer release()
	state, _, err := sh.room(db, &room)
	return state.first, err
}

// Find looks a message up by its client's id. It reads a bounded number of bytes (index.go).
func (sh *Shard) Find(room uuid.UUID, user, clientID string) (m domain.Message, ok bool, err error) {
	db, release, err := sh.store.use(sh.epoch)
	if err != nil {
		return m, false, err
	}
	defer release()
	hash, _ := db.secret.hash(nil, &room, []byte(user), []byte(clientID))
	return sh.find(db, &room, hash, []byte(user), []byte(clientID))
}

func (sh *Shard) find(db *database, room *uuid.UUID, hash uint64, user, clientID []byte) (m domain.Message, ok bool, err error) {
	next, err := sh.next(db)
	if err != nil || next == 0 {
		return m, false, err
	}
	var key [maxKeyLen]byte
	for level := int(levelOf(next - 1)); level >= 0; level-- {
		row, closer, err := db.open(appendIndexKey(key[:0], sh.id, bucketOf(byte(level), hash)))
		if err != nil {
			return m, false, err
		}
		if closer == nil {
			continue
		}
		var readErr error
		err = eachMatch(row, fingerprint(hash), func(serial domain.Serial) bool {
			m, ok, readErr = sh.messageAt(db, room, serial, user, clientID)
			return !ok && readErr == nil
		})
		closeErr := db.check(closer.Close())
		for _, err := range []error{err, readErr, closeErr} {
			if err != nil {
				return domain.Message{}, false, err
			}
		}
		if ok {
			return m, true, nil
		}
	}
	return m, false, nil
}

// next is Position.Next, read once.
func (sh *Shard) next(db *database) (domain.Offset, error) {
	drops, next, known := sh.state.get()
	if known {
		return next, nil
	}
	p, err := sh.position(db)
	if err != nil {
		return 0, err
	}
	sh.state.mu.Lock()
	defer sh.state.mu.Unlock()
	if !sh.state.known && sh.state.drops == drops {
		sh.state.next, sh.state.known = p.Next, true
	}
	return p.Next, nil
}

// messageAt reads one message. It is not there also where the fingerprint was another message's.
func (sh *Shard) messageAt(db *database, room *uuid.UUID, serial domain.Serial, user, clientID []byte) (m domain.Message, ok bool, err error) {
	var key [maxKeyLen]byte
	row, closer, err := db.open(appendPageKey(key[:0], sh.id, room, pageOf(serial)))
	if err != nil || closer == nil {
		return m, false, err
	}
	m, ok, err = findInPage(row, *room, serial, user, clientID)
	if e := db.check(closer.Close()); err == nil {
		err = e
	}
	return m, ok && err == nil, err
}
