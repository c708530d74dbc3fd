package rawsock_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/server/rawsock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a connection over TCP.
func pair(t *testing.T) (server, client *net.TCPConn) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); c.Close() })
	return s, c.(*net.TCPConn)
}

// What Try leaves, Wait writes; the client gets every byte once and in order.
func TestSocket_TryThenWaitIsWhole(t *testing.T) {
	server, client := pair(t)
	var s rawsock.Socket
	pieces := 0
	s.Progress = func() { pieces++ }
	s.Init(server, 20*time.Second, 8<<10)
	sent := make([]byte, 16<<20)
	_, _ = rand.Read(sent)
	s.Lock()
	n, err := s.Try(sent)
	if err != nil || n == 0 || n == len(sent) {
		t.Fatalf("%d of %d, %v", n, len(sent), err)
	}
	if m, err := s.Try(sent[n:]); err != nil || m > len(sent)/2 {
		t.Errorf("a full socket took %d, %v", m, err)
	} else {
		n += m
	}
	if s.TryLock() {
		t.Error("locked twice")
	}
	var got []byte
	var reading sync.WaitGroup
	reading.Go(func() { got, _ = io.ReadAll(client) })
	if err := s.Wait(sent[n:n+10], sent[n+10:]); err != nil {
		t.Error(err)
	}
	s.Unlock()
	_ = s.Close()
	reading.Wait()
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d, or others", len(got), len(sent))
	}
	if pieces < (len(sent)-n)/rawsock.Piece-1 || s.TooSlow() {
		t.Errorf("%d pieces, too slow: %v", pieces, s.TooSlow())
	}
}

// A client that takes a piece within each limit is served, whatever that takes; one that stops is cut, and the
// one who waits learns it.
func TestSocket_CutsWhoStopsReading(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		var s rawsock.Socket
		s.Init(a, 10*time.Second, 0)
		done := make(chan error, 1)
		go func() {
			s.Lock()
			defer s.Unlock()
			if n, err := s.Try(make([]byte, 10)); n != 0 || err != nil { // a pipe is no plain socket
				t.Errorf("Try: %d, %v", n, err)
			}
			done <- s.Wait(make([]byte, 10*rawsock.Piece))
		}()
		for range 5 {
			time.Sleep(9 * time.Second)
			if _, err := io.ReadFull(b, make([]byte, rawsock.Piece)); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		var timeout net.Error
		if err := <-done; !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("ended with %v", err)
		}
		if d := time.Since(began); d != 10*time.Second || !s.TooSlow() {
			t.Errorf("cut after %s, too slow: %v", d, s.TooSlow())
		}
		if _, err := b.Read(make([]byte, 1)); err == nil {
			t.Error("the connection is still there")
		}
	})
}

// Cut ends a write that waits.
func TestSocket_CutTakesNoLock(t *testing.T) {
	server, client := pair(t)
	var s rawsock.Socket
	s.Init(server, time.Hour, 8<<10)
	done := make(chan error, 1)
	s.Lock()
	go func() { done <- s.Wait(make([]byte, 16<<20)) }()
	s.Cut()
	if err := <-done; err == nil || s.TooSlow() {
		t.Errorf("ended with %v, too slow: %v", err, s.TooSlow())
	}
	s.Unlock()
	_ = client.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.Copy(io.Discard, client); err == nil {
		t.Error("a clean end")
	}
}
