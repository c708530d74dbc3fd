package local

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// InMemory as Config.Dir keeps the store in memory: the same code on another file system.
const InMemory = ":memory:"

// Config of a Store. Only Dir is required.
type Config struct {
	Dir string // directory of this instance alone; made if absent. InMemory for none
	FS  vfs.FS // file system under Dir; nil: the operating system's, or memory
	Log *slog.Logger

	CacheBytes    int64  // of decoded blocks; 0: 32 MiB
	MemTableBytes uint64 // of one of at most four memtables; 0: 16 MiB
}

const (
	defaultCacheBytes    = 32 << 20
	defaultMemTableBytes = 16 << 20
)

// Errors of all methods, found with errors.Is.
var (
	// ErrInUse: another process, or another Store of this one, holds the directory.
	ErrInUse = errors.New("the data directory is in use by another instance")
	// ErrCorrupt: local data contradict themselves. Nothing wrong was answered. Drop the shard and load it again;
	// if Fault is set, DropAll.
	ErrCorrupt = errors.New("local data are corrupt")
	// ErrFault: the store as a whole cannot be trusted or written; Fault says why. DropAll starts it anew.
	ErrFault = errors.New("the local store failed")
	// ErrStale: the Shard, Fold or DirectoryStore is of before a Drop or DropAll. Take a new one.
	ErrStale = errors.New("local data were dropped since")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the local store is closed")
)

// Store is the local data of one instance. Its methods may be called from any goroutine.
type Store struct {
	cfg  Config
	fs   vfs.FS
	lock io.Closer
	id   string

	// mu guards db against being closed under a reader. It is held in read mode during every operation on db, and
	// in write mode only by Close and DropAll. No code of a caller runs under it, and none of this package takes
	// it twice: a second reader waits behind a waiting writer. Of the locks here it is taken first.
	mu     sync.RWMutex
	db     *database // nil: closed, or DropAll failed
	closed bool
	epoch  uint64 // counts DropAll; handles of an older one are stale

	shardsMu sync.Mutex
	shards   map[domain.ShardID]*shardState
	dirMu    sync.Mutex // one directory edit at a time

	compaction compaction
}

// Open opens the store in cfg.Dir, or starts one. A store that is corrupt, or of another format than this program's,
// is rebuilt with one line in the log. ErrInUse: somebody else holds it.
func Open(cfg Config) (*Store, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.CacheBytes == 0 {
		cfg.CacheBytes = defaultCacheBytes
	}
	if cfg.MemTableBytes == 0 {
		cfg.MemTableBytes = defaultMemTableBytes
	}
	s := &Store{cfg: cfg, fs: cfg.FS, epoch: 1, shards: map[domain.ShardID]*shardState{}}
	if s.fs == nil {
		s.fs = vfs.Default
		if cfg.Dir == InMemory {
			s.fs = vfs.NewMem()
		}
	}
	if cfg.Dir == InMemory {
		s.cfg.Dir = "memory"
	}
	if err := s.openDir(); err != nil {
		if s.lock != nil {
			err = errors.Join(err, s.lock.Close())
		}
		return nil, fmt.Errorf("open local store: %w", err)
	}
	return s, nil
}

// Close writes back what is in memory, as far as the disk takes it, and releases the directory.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.closed = true
	var err error
	if s.db != nil {
		err = s.db.close()
		s.db = nil
	}
	if e := s.lock.Close(); e != nil {
		err = errors.Join(err, fmt.Errorf("release the data directory: %w", e))
	}
	return err
}

// Fault is nil while the store can be trusted and written. Afterwards it says why not (disk full, corrupt, …), until
// DropAll. It wraps ErrFault, and ErrCorrupt where that is the cause.
func (s *Store) Fault() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.db == nil:
		return ErrFault
	}
	return s.db.fault.err()
}

// Faulted is closed when Fault becomes set. After DropAll there is a new channel.
func (s *Store) Faulted() <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.db == nil {
		c := make(chan struct{})
		close(c)
		return c
	}
	return s.db.fault.set
}

// DropAll forgets everything but the instance id and starts anew, also after a fault: of another home id, or of a
// disk that failed. All Shards, Folds and DirectoryStores of before are stale. After an error the store is
// faulted, and DropAll may be called again.
func (s *Store) DropAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.epoch++
	s.shardsMu.Lock()
	clear(s.shards)
	s.shardsMu.Unlock()
	if s.db != nil {
		s.db.fault.freeze() // what is left in memory need not reach the disk
		_ = s.db.close()    // of no interest: its files go now
		s.db = nil
	}
	db, err := s.startDB()
	if err != nil {
		return fmt.Errorf("start the local store anew: %w: %w", ErrFault, err)
	}
	s.db = db
	return nil
}

// InstanceID is this directory's instance id: drawn once, kept also when the data are rebuilt.
func (s *Store) InstanceID() string { return s.id }

// Home is the life of the topics that the data were built from; the zero uuid if none was set.
func (s *Store) Home() (uuid.UUID, error) {
	var id uuid.UUID
	db, release, err := s.use(0)
	if err != nil {
		return id, err
	}
	defer release()
	value, ok, err := db.get(keyHome)
	if err != nil || !ok {
		return id, err
	}
	if len(value) != len(id) {
		return id, fmt.Errorf("%w: home id", ErrCorrupt)
	}
	copy(id[:], value)
	return id, nil
}

// SetHome notes the life of the topics. DropAll first if there was another one.
func (s *Store) SetHome(id uuid.UUID) error {
	db, release, err := s.use(0)
	if err != nil {
		return err
	}
	defer release()
	return db.check(db.Set(keyHome, id[:], pebble.Sync))
}

// Shard is the local data of one shard. Take a new one for each tenure.
func (s *Store) Shard(id domain.ShardID) *Shard {
	s.mu.RLock()
	epoch := s.epoch
	s.mu.RUnlock()
	return &Shard{store: s, id: id, epoch: epoch, state: s.shard(id)}
}

func (s *Store) shard(id domain.ShardID) *shardState {
	s.shardsMu.Lock()
	defer s.shardsMu.Unlock()
	st := s.shards[id]
	if st == nil {
		st = &shardState{}
		s.shards[id] = st
	}
	return st
}

// use hands the database out until release is called. epoch 0 is any.
func (s *Store) use(epoch uint64) (db *database, release func(), err error) {
	s.mu.RLock()
	switch {
	case s.closed:
		err = ErrClosed
	case epoch != 0 && epoch != s.epoch:
		err = ErrStale
	case s.db == nil:
		err = ErrFault
	default:
		err = s.db.fault.err()
	}
	if err != nil {
		s.mu.RUnlock()
		return nil, nil, err
	}
	return s.db, s.mu.RUnlock, nil
}
