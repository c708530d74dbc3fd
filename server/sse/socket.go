package sse

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/rawsock"
)

// socket is a hijacked HTTP/1.1 connection. Nothing here waits for the client longer than the write timeout.
type socket struct {
	rawsock.Socket
	ended bool // nothing may be written any more. Under the lock, which keeps chunks whole
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
	sock := new(socket)
	sock.Init(conn, s.cfg.WriteTimeout, s.cfg.SendBuffer)
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

// watch returns when the client has gone or the stream has ended. It sends the comments meanwhile: a read
// that times out is the clock.
func (s *socket) watch(every time.Duration) {
	ping := chunk(comment)
	var buf [64]byte
	strays := 0
	for {
		if s.SetReadDeadline(time.Now().Add(every)) != nil {
			return
		}
		n, err := s.Read(buf[:])
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
	s.Lock()
	defer s.Unlock()
	return s.wait(b)
}

func (s *socket) send(f *fanout.Frame) error { return s.write(f.Bytes) }

// wait writes all parts. Called with the lock.
func (s *socket) wait(parts ...[]byte) error {
	if s.ended {
		return net.ErrClosed
	}
	err := s.Wait(parts...)
	s.ended = err != nil // the chunk is torn
	return err
}

func (s *socket) trySend(f *fanout.Frame, done func(error)) (pending bool, err error) {
	n := 0
	locked := s.TryLock() // a comment may be on its way
	if locked {
		if s.ended {
			s.Unlock()
			return false, net.ErrClosed
		}
		n, err = s.Try(f.Bytes)
		if err != nil || n == len(f.Bytes) {
			s.Unlock()
			return false, err
		}
	}
	rest := f.Rest(n)
	go func() {
		if !locked {
			s.Lock()
		}
		err := s.wait(rest...)
		s.Unlock()
		done(err)
	}()
	return true, nil
}

func (s *socket) finish() {
	go func() {
		s.Lock()
		defer s.Unlock()
		if s.wait(append(chunk(complete), lastChunk...)) == nil {
			s.ended = true
			_ = s.Close()
		}
	}()
}

func (s *socket) cut() { s.Cut() }
