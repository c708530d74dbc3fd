package ws

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/rawsock"
)

// wire is the hijacked connection. coder/websocket reads from it and answers control frames through Write;
// everything else that is sent goes straight through send and trySend. The socket's lock keeps frames whole: coder
// hands over one control frame a Write, because its buffer holds the largest one (see hijack.go).
type wire struct {
	rawsock.Socket

	maxWaiting int32        // writes that may wait for the client at once
	waiting    atomic.Int32 // … and do
	closed     atomic.Bool  // a close frame went out: nothing may follow it. Written under the lock
}

func newWire(c net.Conn, limit time.Duration, sendBuffer, maxWaiting int, heard *atomic.Bool) *wire {
	w := &wire{maxWaiting: int32(maxWaiting)}
	w.Init(c, limit, sendBuffer)
	w.Progress = func() { heard.Store(true) } // a ping would prove itself
	return w
}

// Write is for coder/websocket's control frames: it waits like send.
func (w *wire) Write(frame []byte) (int, error) {
	if err := w.send(frame, nil); err != nil {
		return 0, err
	}
	return len(frame), nil
}

// send writes a whole frame. Unless gone is nil, it is looked at as late as possible: frames of an operation
// that has ended are dropped, so that none follows the first frame of another operation with the same id.
func (w *wire) send(frame []byte, gone *atomic.Bool) error {
	w.Lock()
	defer w.Unlock()
	if gone != nil && gone.Load() {
		return nil
	}
	if w.closed.Load() {
		return net.ErrClosed
	}
	w.closed.Store(isClose(frame))
	return w.Wait(frame)
}

// sendLast writes the last frames of an operation, unless take says that it has ended. take is called as late as
// possible, with the lock held: what another operation with the same id writes comes behind. It may lock conn.mu, under
// which nobody takes this lock.
func (w *wire) sendLast(frames []byte, take func() bool) (taken bool, err error) {
	w.Lock()
	defer w.Unlock()
	if !take() {
		return false, nil
	}
	if w.closed.Load() {
		return true, net.ErrClosed
	}
	return true, w.Wait(frames)
}

// isClose says whether frame is a close frame. Only whole frames come here.
func isClose(frame []byte) bool { return len(frame) > 0 && frame[0]&0x0f == opClose }

var errTooManyWrites = errors.New("too many writes wait for a client that does not read")

// trySend writes a frame without waiting. What the socket does not take goes out on a goroutine of its own
// that ends with done; pending says so. A connection that is just being written to counts as pending.
func (w *wire) trySend(f *fanout.Frame, gone *atomic.Bool, done func(error)) (pending bool, err error) {
	n := 0
	locked := w.TryLock()
	if locked {
		switch {
		case gone != nil && gone.Load():
			w.Unlock()
			return false, nil
		case w.closed.Load():
			w.Unlock()
			return false, net.ErrClosed
		}
		n, err = w.Try(f.Bytes)
		w.closed.Store(isClose(f.Bytes))
		if err != nil || n == len(f.Bytes) {
			w.Unlock()
			return false, err
		}
	}
	rest, closes := f.Rest(n), isClose(f.Bytes)
	if w.waiting.Add(1) > w.maxWaiting && n == 0 {
		w.waiting.Add(-1)
		if locked {
			w.Unlock()
		}
		w.Cut()
		return false, errTooManyWrites
	}
	go func() {
		defer w.waiting.Add(-1)
		if !locked {
			w.Lock()
		}
		var err error
		switch {
		case n == 0 && gone != nil && gone.Load():
		case w.closed.Load() && !(locked && closes):
			err = net.ErrClosed
		default:
			w.closed.Store(closes)
			err = w.Wait(rest...)
		}
		w.Unlock()
		done(err)
	}()
	return true, nil
}

// tryPing sends a small frame if nothing is being written. False: something is, or the socket is full.
func (w *wire) tryPing(f *fanout.Frame) bool {
	if !w.TryLock() {
		return false
	}
	w.Unlock() // a write that comes in between makes trySend wait on a goroutine, for which there is room
	if w.waiting.Load() >= w.maxWaiting {
		return false
	}
	_, err := w.trySend(f, nil, func(error) {})
	return err == nil
}
