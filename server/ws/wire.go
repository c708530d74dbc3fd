package ws

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/chathome/chathome/server/fanout"
)

// wire is the hijacked connection. coder/websocket reads from it and answers control frames through Write;
// everything else that is sent goes straight through send and trySend. The mutex keeps frames whole: coder
// hands over one control frame a Write, because its buffer holds the largest one (see hijack.go).
//
// Nothing here waits for the client longer than limit: after that the connection is cut, because a frame that
// was begun cannot be left.
type wire struct {
	net.Conn
	limit time.Duration
	raw   syscall.RawConn // nil: no plain socket (TLS), so every write waits, on a goroutine of its own
	heard *atomic.Bool    // set where the client shows that it lives by taking many bytes

	maxWaiting int32        // writes that may wait for the client at once
	waiting    atomic.Int32 // … and do

	mu     mutex
	closed atomic.Bool // a close frame went out: nothing may follow it. Written under mu

	// What raw.Write works on, under mu. A method value made once: no allocation per write.
	try     func(fd uintptr) bool
	tryBuf  []byte
	tryN    int
	tryErr  error
	tooSlow atomic.Bool // cut because the client did not read
}

// piece bounds what has to get through within one write deadline: a client that reads at least piece/limit
// (1.6 KB/s by default) is slow, one that reads less has stopped.
const piece = 16 << 10

func newWire(c net.Conn, limit time.Duration, maxWaiting int, heard *atomic.Bool) *wire {
	w := &wire{Conn: c, limit: limit, maxWaiting: int32(maxWaiting), heard: heard, mu: make(mutex, 1)}
	if tcp, ok := c.(*net.TCPConn); ok {
		w.raw, _ = tcp.SyscallConn()
	}
	w.try = func(fd uintptr) bool {
		w.tryN, w.tryErr = syscall.Write(int(fd), w.tryBuf)
		return w.tryErr != syscall.EINTR //nolint:errorlint // the bare errno of a system call, once a delivery
	}
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
	w.mu.Lock()
	defer w.mu.Unlock()
	if gone != nil && gone.Load() {
		return nil
	}
	if w.closed.Load() {
		return net.ErrClosed
	}
	w.closed.Store(isClose(frame))
	return w.slow(frame)
}

// isClose says whether frame is a close frame. Only whole frames come here.
func isClose(frame []byte) bool { return len(frame) > 0 && frame[0]&0x0f == opClose }

var errTooManyWrites = errors.New("too many writes wait for a client that does not read")

// slow writes all pieces, each within limit. Called with mu held.
func (w *wire) slow(parts ...[]byte) error {
	for _, b := range parts {
		for len(b) > 0 {
			p := b[:min(len(b), piece)]
			if err := w.Conn.SetWriteDeadline(time.Now().Add(w.limit)); err != nil {
				return err
			}
			if _, err := w.Conn.Write(p); err != nil {
				var timeout net.Error
				w.tooSlow.CompareAndSwap(false, errors.As(err, &timeout) && timeout.Timeout())
				w.cut() // the frame is torn
				return err
			}
			if len(p) == piece { // a ping would prove itself
				w.heard.Store(true)
			}
			b = b[len(p):]
		}
	}
	return w.Conn.SetWriteDeadline(time.Time{}) // raw.Write looks at it
}

// trySend writes a frame without waiting. What the socket does not take goes out on a goroutine of its own
// that ends with done; pending says so. A connection that is just being written to counts as pending.
func (w *wire) trySend(f *fanout.Frame, gone *atomic.Bool, done func(error)) (pending bool, err error) {
	n := 0
	locked := w.mu.TryLock()
	if locked {
		switch {
		case gone != nil && gone.Load():
			w.mu.Unlock()
			return false, nil
		case w.closed.Load():
			w.mu.Unlock()
			return false, net.ErrClosed
		}
		if w.raw != nil {
			n, err = w.rawWrite(f.Bytes)
		}
		w.closed.Store(isClose(f.Bytes))
		if err != nil || n == len(f.Bytes) {
			w.mu.Unlock()
			return false, err
		}
	}
	rest, closes := f.Rest(n), isClose(f.Bytes)
	if w.waiting.Add(1) > w.maxWaiting && n == 0 {
		w.waiting.Add(-1)
		if locked {
			w.mu.Unlock()
		}
		w.cut()
		return false, errTooManyWrites
	}
	go func() {
		defer w.waiting.Add(-1)
		if !locked {
			w.mu.Lock()
		}
		var err error
		switch {
		case n == 0 && gone != nil && gone.Load():
		case w.closed.Load() && !(locked && closes):
			err = net.ErrClosed
		default:
			w.closed.Store(closes)
			err = w.slow(rest...)
		}
		w.mu.Unlock()
		done(err)
	}()
	return true, nil
}

// rawWrite is one write(2) that does not wait. Called with mu held.
func (w *wire) rawWrite(b []byte) (int, error) {
	w.tryBuf, w.tryN, w.tryErr = b, 0, nil
	err := w.raw.Write(w.try)
	w.tryBuf = nil
	if err == nil && w.tryErr != syscall.EAGAIN { //nolint:errorlint // likewise
		err = w.tryErr
	}
	return max(w.tryN, 0), err
}

// cut ends the connection without a word: whatever the kernel still holds for the client is dropped with it,
// else a client that never reads would keep that memory.
func (w *wire) cut() {
	c := w.Conn
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn() // tls.Conn.Close would first try to say goodbye
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// tryPing sends a small frame if nothing is being written. False: something is, or the socket is full.
func (w *wire) tryPing(f *fanout.Frame) bool {
	if !w.mu.TryLock() {
		return false
	}
	w.mu.Unlock() // a write that comes in between makes trySend wait on a goroutine, for which there is room
	if w.waiting.Load() >= w.maxWaiting {
		return false
	}
	_, err := w.trySend(f, nil, func(error) {})
	return err == nil
}

// mutex is a sync.Mutex that testing/synctest understands as waiting: it is held while a client is waited for.
type mutex chan struct{}

func (m mutex) Lock()   { m <- struct{}{} }
func (m mutex) Unlock() { <-m }

// TryLock says whether it got the lock.
func (m mutex) TryLock() bool {
	select {
	case m <- struct{}{}:
		return true
	default:
		return false
	}
}
