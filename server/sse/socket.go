package sse

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/chathome/chathome/server/fanout"
)

// piece is what a client must be able to read within one write timeout.
const piece = 16 << 10

// socket is a hijacked HTTP/1.1 connection. Nothing here waits for the client longer than limit.
type socket struct {
	conn  net.Conn
	limit time.Duration
	raw   syscall.RawConn // nil: no plain socket (TLS), so every write waits, on a goroutine of its own

	mu    sync.Mutex // keeps chunks whole
	ended bool       // nothing may be written any more

	// What raw.Write works on, under mu. A method value made once: no allocation per write.
	try    func(fd uintptr) bool
	tryBuf []byte
	tryN   int
	tryErr error
}

// hijack takes the connection over and sends the headers, or returns nil where that is not possible; then
// nothing has been written.
func (s *Server) hijack(w http.ResponseWriter, r *http.Request) *socket {
	if r.ProtoMajor != 1 || r.ProtoMinor < 1 {
		return nil // chunks need HTTP/1.1
	}
	header := w.Header().Clone()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil
	}
	_ = conn.SetDeadline(time.Time{}) // the HTTP server's own timeouts end here
	sock := newSocket(conn, s.cfg.WriteTimeout, s.cfg.SendBuffer)
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	header.Set("Transfer-Encoding", "chunked")
	header.Set("Connection", "close")
	var head bytes.Buffer
	head.WriteString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(&head) // a buffer takes everything
	head.WriteString("\r\n")
	head.Write(chunk(comment))
	if sock.write(head.Bytes()) != nil {
		return sock // it is cut; whoever writes next learns that
	}
	return sock
}

func newSocket(conn net.Conn, limit time.Duration, sendBuffer int) *socket {
	s := &socket{conn: conn, limit: limit}
	if tcp, ok := bare(conn).(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(sendBuffer) // by itself it grows to 4 MB
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		s.raw, _ = tcp.SyscallConn()
	}
	s.try = func(fd uintptr) bool {
		s.tryN, s.tryErr = syscall.Write(int(fd), s.tryBuf)
		return s.tryErr == nil || !errors.Is(s.tryErr, syscall.EINTR)
	}
	return s
}

// bare is the connection below TLS.
func bare(conn net.Conn) net.Conn {
	if t, ok := conn.(interface{ NetConn() net.Conn }); ok {
		return t.NetConn()
	}
	return conn
}

// watch returns when the client has gone or the stream has ended. It sends the comments meanwhile: a read
// that times out is the clock.
func (s *socket) watch(every time.Duration) {
	ping := chunk(comment)
	var buf [64]byte
	strays := 0
	for {
		if s.conn.SetReadDeadline(time.Now().Add(every)) != nil {
			return
		}
		n, err := s.conn.Read(buf[:])
		strays += n
		switch {
		case strays > 4<<10: // nothing is to come from the client: whoever goes on talking is cut
			s.cut()
			return
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			if s.write(ping) != nil {
				return
			}
		default:
			s.cut()
			return
		}
	}
}

func (s *socket) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slow(b)
}

func (s *socket) send(f *fanout.Frame) error { return s.write(f.Bytes) }

// slow writes all parts, piece by piece, each within limit. Called with mu held.
func (s *socket) slow(parts ...[]byte) error {
	if s.ended {
		return net.ErrClosed
	}
	for _, b := range parts {
		for len(b) > 0 {
			p := b[:min(len(b), piece)]
			if err := s.conn.SetWriteDeadline(time.Now().Add(s.limit)); err != nil {
				return err
			}
			if _, err := s.conn.Write(p); err != nil {
				s.ended = true // the chunk is torn
				s.cut()
				return err
			}
			b = b[len(p):]
		}
	}
	return s.conn.SetWriteDeadline(time.Time{}) // raw.Write looks at it
}

func (s *socket) trySend(f *fanout.Frame, done func(error)) (pending bool, err error) {
	n := 0
	locked := s.mu.TryLock() // a comment may be on its way
	if locked {
		if s.ended {
			s.mu.Unlock()
			return false, net.ErrClosed
		}
		if s.raw != nil {
			n, err = s.rawWrite(f.Bytes)
		}
		if err != nil || n == len(f.Bytes) {
			s.mu.Unlock()
			return false, err
		}
	}
	rest := f.Rest(n)
	go func() {
		if !locked {
			s.mu.Lock()
		}
		err := s.slow(rest...)
		s.mu.Unlock()
		done(err)
	}()
	return true, nil
}

// rawWrite is one write(2) that does not wait. Called with mu held.
func (s *socket) rawWrite(b []byte) (int, error) {
	s.tryBuf, s.tryN, s.tryErr = b, 0, nil
	err := s.raw.Write(s.try)
	s.tryBuf = nil
	if err == nil && s.tryErr != nil && !errors.Is(s.tryErr, syscall.EAGAIN) {
		err = s.tryErr
	}
	return max(s.tryN, 0), err
}

func (s *socket) finish() {
	go func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.slow(append(chunk(complete), lastChunk...)) == nil {
			s.ended = true
			_ = s.conn.Close()
		}
	}()
}

// cut drops what the kernel still holds for the client: one that never reads would keep that memory. It
// takes no lock, so that it also ends a write that waits.
func (s *socket) cut() {
	c := bare(s.conn) // tls.Conn.Close would first try to say goodbye
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
