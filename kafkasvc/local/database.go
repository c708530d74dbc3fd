package local

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
)

// database is Pebble with its fault. After everything that Pebble did, the fault is asked for: an answer that was
// given while the store failed is not given.
type database struct {
	*pebble.DB
	fault  *fault
	secret hashKey // of the index: clients must not be able to aim at a bucket
}

// check turns Pebble's err into the store's: whatever Pebble cannot do is a fault.
func (d *database) check(err error) error {
	if err != nil {
		d.fault.fail(err)
	}
	return d.fault.err()
}

// get reads a small row. The value is the caller's.
func (d *database) get(key []byte) (value []byte, ok bool, err error) {
	v, closer, err := d.open(key)
	if err != nil || closer == nil {
		return nil, false, err
	}
	value = append([]byte(nil), v...)
	return value, true, d.check(closer.Close())
}

// open reads a row. The value is valid until closer is closed; closer is nil where there is no such row.
func (d *database) open(key []byte) (value []byte, closer io.Closer, err error) {
	value, closer, err = d.DB.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil, d.fault.err()
	}
	if err := d.check(err); err != nil {
		if closer != nil {
			_ = closer.Close()
		}
		return nil, nil, err
	}
	return value, closer, nil
}

// apply commits a batch, unsynced, and closes it.
func (d *database) apply(b *pebble.Batch) error {
	err := d.check(d.DB.Apply(b, pebble.NoSync))
	return errors.Join(err, d.check(b.Close()))
}

func (d *database) close() error {
	d.fault.closed.Store(true)
	if err := d.DB.Close(); err != nil {
		return fmt.Errorf("close local data: %w", err)
	}
	return nil
}

var keySecret = []byte("msecret")

func (d *database) drawSecret() error {
	if _, err := rand.Read(d.secret[:]); err != nil {
		return fmt.Errorf("draw the index key: %w", err)
	}
	return d.check(d.Set(keySecret, d.secret[:], pebble.Sync))
}

// readSecret fails where there is none: the store was not started completely.
func (d *database) readSecret() error {
	value, ok, err := d.get(keySecret)
	if err == nil && (!ok || len(value) != len(d.secret)) {
		err = fmt.Errorf("%w: no index key", ErrCorrupt)
	}
	copy(d.secret[:], value)
	return err
}
