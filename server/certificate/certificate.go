// Package certificate keeps the server's certificate as its files have it: whoever renews them need not restart
// anything.
package certificate

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Files is a certificate and its key in two PEM files.
type Files struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	seen    stamps    // of the files when they were last read, also in vain
	checked time.Time // when seen was last compared with the files
}

// checkInterval: handshakes look at the files no more often than this.
const checkInterval = time.Second

// stamps tell whether files have changed. A renewal that replaces a symbolic link changes them too.
type stamps struct{ cert, key stamp }

type stamp struct {
	changed time.Time
	size    int64
}

// Open reads the files once. The error says what is wrong with them.
func Open(cert, key string, log *slog.Logger) (*Files, error) {
	f := &Files{cert: cert, key: key, log: log}
	seen, err := f.look()
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	if err := f.read(seen); err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	f.checked = time.Now()
	return f, nil
}

// Config is how to serve with the certificate.
func (f *Files) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return f.current(time.Now()), nil
		},
	}
}

// current looks at the files before it answers. While they cannot be used, as between the writing of the one and
// of the other, the last good pair stays.
func (f *Files) current(now time.Time) *tls.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.checked) < checkInterval {
		return f.pair
	}
	f.checked = now
	seen, err := f.look()
	if err == nil && seen == f.seen {
		return f.pair
	}
	if err == nil {
		err = f.read(seen)
	}
	if err != nil {
		f.log.Warn("the changed certificate cannot be used; the last one stays", "err", err)
		return f.pair
	}
	f.log.Info("using a changed certificate", "until", f.pair.Leaf.NotAfter)
	return f.pair
}

// look takes the stamps before the files are read: what changes meanwhile is seen at the next look.
func (f *Files) look() (s stamps, err error) {
	if s.cert, err = stampOf(f.cert); err != nil {
		return s, err
	}
	s.key, err = stampOf(f.key)
	return s, err
}

func stampOf(file string) (stamp, error) {
	info, err := os.Stat(file)
	if err != nil {
		return stamp{}, err
	}
	return stamp{info.ModTime(), info.Size()}, nil
}

func (f *Files) read(seen stamps) error {
	f.seen = seen
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return err
	}
	f.pair = &pair
	return nil
}
