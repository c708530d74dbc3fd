// Package rawsock writes to connections that were taken over from net/http: to many clients in turn, without
// waiting for any of them. What a socket does not take at once is written by who may wait, piece by piece, each
// with a deadline, so that a client that reads slowly is served and one that does not read is cut.
package rawsock

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Piece bounds what has to get through within one write deadline: a client that reads at least Piece/limit
// (1.6 KB/s by default) is slow, one that reads less has stopped.
const Piece = 16 << 10

// Socket is one connection. Its lock keeps what is written whole; what else depends on the order of writes may be
// kept under it too. It must not be copied.
type Socket struct {
	net.Conn
	// Progress, unless nil, is called when a whole Piece got through while somebody waited: the client reads.
	Progress func()

	limit time.Duration
	raw   syscall.RawConn // nil: no plain socket (TLS), so nothing can be written without waiting
	lock  mutex
	slow  atomic.Bool

	// What raw.Write works on, under the lock. A method value made once: no allocation per write.
	try    func(fd uintptr) bool
	tryBuf []byte
	tryN   int
	tryErr error
}

// Init takes c over. limit is for each piece; sendBuffer bounds what the kernel keeps for a client that does not
// read, in bytes: by itself it grows to 4 MB.
func (s *Socket) Init(c net.Conn, limit time.Duration, sendBuffer int) {
	s.Conn, s.limit, s.lock = c, limit, make(mutex, 1)
	_ = c.SetDeadline(time.Time{}) // the HTTP server's own timeouts end here
	if tcp, ok := bare(c).(*net.TCPConn); ok && sendBuffer > 0 {
		_ = tcp.SetWriteBuffer(sendBuffer)
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		s.raw, _ = tcp.SyscallConn()
	}
	s.try = func(fd uintptr) bool {
		s.tryN, s.tryErr = syscall.Write(int(fd), s.tryBuf)
		return s.tryErr != syscall.EINTR //nolint:errorlint // the bare errno of a system call, once a delivery
	}
}

// bare is the connection below TLS.
func bare(c net.Conn) net.Conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return c
}

// Lock takes the lock, perhaps behind somebody who waits for the client.
func (s *Socket) Lock() { s.lock <- struct{}{} }

// TryLock says whether it got the lock.
func (s *Socket) TryLock() bool {
	select {
	case s.lock <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock gives the lock back.
func (s *Socket) Unlock() { <-s.lock }

// Try is one write(2) that does not wait. It says how much the socket took, perhaps nothing. Called with the lock.
func (s *Socket) Try(b []byte) (int, error) {
	if s.raw == nil {
		return 0, nil
	}
	s.tryBuf, s.tryN, s.tryErr = b, 0, nil
	err := s.raw.Write(s.try)
	s.tryBuf = nil
	if err == nil && s.tryErr != syscall.EAGAIN { //nolint:errorlint // likewise
		err = s.tryErr
	}
	return max(s.tryN, 0), err
}

// Wait writes all parts, piece by piece, each within the limit. After an error the connection is cut: what was
// begun cannot be left. Called with the lock.
func (s *Socket) Wait(parts ...[]byte) error {
	for _, b := range parts {
		for len(b) > 0 {
			p := b[:min(len(b), Piece)]
			if err := s.Conn.SetWriteDeadline(time.Now().Add(s.limit)); err != nil {
				return err
			}
			if _, err := s.Conn.Write(p); err != nil {
				var timeout net.Error
				if errors.As(err, &timeout) && timeout.Timeout() {
					s.slow.Store(true)
				}
				s.Cut()
				return err
			}
			if len(p) == Piece && s.Progress != nil {
				s.Progress()
			}
			b = b[len(p):]
		}
	}
	return s.Conn.SetWriteDeadline(time.Time{}) // raw.Write looks at it
}

// TooSlow says whether the connection was cut because the client did not read.
func (s *Socket) TooSlow() bool { return s.slow.Load() }

// Cut ends the connection without a word. What the kernel still holds for the client is dropped with it, else one
// that never reads would keep that memory. It takes no lock, so that it also ends a write that waits.
func (s *Socket) Cut() {
	c := bare(s.Conn) // tls.Conn.Close would first try to say goodbye
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// mutex is a sync.Mutex that testing/synctest understands as waiting: it is held while a client is waited for.
type mutex chan struct{}
