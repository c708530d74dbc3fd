package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
)

// formatVersion numbers what keys and values look like and mean. A store of any other number is rebuilt.
const formatVersion = 1

// Files in the data directory. Everything but instance-id may be deleted while no instance runs.
const (
	fileLock     = "LOCK"
	fileInstance = "instance-id"
	fileFormat   = "format" // written after db was emptied and before it is filled
	dirDB        = "db"
)

// unspecified: Pebble accounts writes by category; we do not.
const unspecified = vfs.WriteCategoryUnspecified

func (s *Store) path(name string) string { return s.fs.PathJoin(s.cfg.Dir, name) }

// openDir takes the directory, reads the instance id and opens the database. A lock that it took stays in s.lock
// also after an error.
func (s *Store) openDir() error {
	if err := s.fs.MkdirAll(s.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	lock, err := s.fs.Lock(s.path(fileLock))
	if err != nil {
		return lockError(err)
	}
	s.lock = lock
	if s.id, err = s.instanceID(); err != nil {
		return err
	}
	if s.formatIsOurs() {
		if s.db, err = s.openDB(); err == nil {
			if err = s.db.readSecret(); err == nil {
				return nil
			}
			_ = s.db.close() // it goes now
		}
		s.cfg.Log.Warn("local data cannot be used; they are dropped and built from the log again", "err", err)
	}
	s.db, err = s.startDB()
	return err
}

// lockError tells a directory that is held from one that cannot be locked.
func lockError(err error) error {
	var path *fs.PathError
	var errno syscall.Errno
	switch {
	case errors.As(err, &path):
	case errors.As(err, &errno) && errno != syscall.EAGAIN && errno != syscall.EACCES:
	default:
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	return fmt.Errorf("lock the data directory: %w", err)
}

// formatIsOurs logs where there is a database of another format.
func (s *Store) formatIsOurs() bool {
	want := formatLine()
	got, err := s.readFile(fileFormat, len(want)+1)
	if err == nil && bytes.Equal(got, want) {
		return true
	}
	if _, dbErr := s.fs.Stat(s.path(dirDB)); dbErr == nil {
		s.cfg.Log.Warn("local data have another format; they are dropped and built from the log again",
			"format", formatVersion)
	}
	return false
}

func formatLine() []byte { return fmt.Appendf(nil, "chathome local data, format %d\n", formatVersion) }

// startDB wipes the database and opens an empty one.
func (s *Store) startDB() (*database, error) {
	if err := s.fs.RemoveAll(s.path(dirDB)); err != nil {
		return nil, fmt.Errorf("delete local data: %w", err)
	}
	if err := s.writeFile(fileFormat, formatLine()); err != nil {
		return nil, err
	}
	db, err := s.openDB()
	if err != nil {
		return nil, err
	}
	if err := db.drawSecret(); err != nil {
		return nil, errors.Join(err, db.close())
	}
	return db, nil
}

// openDB opens what is there. An error means that it cannot be used.
func (s *Store) openDB() (db *database, err error) {
	f := newFault(func(cause error) {
		s.cfg.Log.Error("the local store failed; its shards have to be loaded again", "err", cause)
	})
	cache := pebble.NewCache(s.cfg.CacheBytes)
	defer cache.Unref()
	opts := &pebble.Options{
		FS:                    newFreezeFS(s.fs, f),
		Cache:                 cache,
		Merger:                merger,
		Logger:                f,
		EventListener:         f.listener(),
		FormatMajorVersion:    pebble.FormatValueSeparation,
		MemTableSize:          s.cfg.MemTableBytes,
		L0CompactionThreshold: tablesUsual,
		L0StopWritesThreshold: 1000, // a commit waits for memory at most, never for compaction
		LBaseMaxBytes:         64 << 20,
		MaxOpenFiles:          512,
	}
	opts.CompactionConcurrencyRange = s.compaction.concurrency
	opts.Experimental.L0CompactionConcurrency = tablesWaiting
	for i := range opts.Levels {
		opts.Levels[i].BlockSize = 8 << 10
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10) // most rows that are asked for are not there
	}
	defer func() {
		// Bytes that pass all of Pebble's checks and still make no sense. Its locks die with the database.
		if p := recover(); p != nil {
			db, err = nil, fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	p, err := pebble.Open(s.path(dirDB), opts)
	if err != nil {
		return nil, err
	}
	db = &database{DB: p, fault: f}
	if err := f.err(); err != nil {
		return nil, errors.Join(err, db.close())
	}
	return db, nil
}

func (s *Store) instanceID() (string, error) {
	got, err := s.readFile(fileInstance, 64)
	if err == nil {
		if id, err := uuid.ParseBytes(bytes.TrimSpace(got)); err == nil {
			return id.String(), nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the instance id: %w", err)
	}
	id := uuid.NewString()
	return id, s.writeFile(fileInstance, []byte(id+"\n"))
}

func (s *Store) readFile(name string, limit int) ([]byte, error) {
	f, err := s.fs.Open(s.path(name))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, int64(limit)))
	return b, errors.Join(err, f.Close())
}

func (s *Store) writeFile(name string, b []byte) error {
	f, err := s.fs.Create(s.path(name), unspecified)
	if err != nil {
		return fmt.Errorf("write local data: %w", err)
	}
	_, err = f.Write(bytes.Clone(b)) // Write may change what it is given
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write local data: %w", err)
	}
	return nil
}
