package sse

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/rawsock"
)

// response is a stream that net/http frames: HTTP/2, or HTTP/1.0. Its handler stays in watch until the end.
type response struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	limit time.Duration

	mu    sync.Mutex // one writer at a time
	ended bool       // the handler returns: nothing may be written any more

	once sync.Once
	done chan struct{}
	torn bool // set before done closes: the client must not take the end for a complete answer
}

func newResponse(w http.ResponseWriter, limit time.Duration) *response {
	return &response{w: w, rc: http.NewResponseController(w), limit: limit, done: make(chan struct{})}
}

// watch sends headers and comments until the client has gone or the stream has ended.
func (p *response) watch(ctx context.Context, every time.Duration) {
	_ = p.rc.SetReadDeadline(time.Time{}) // net/http would take the read timeout for the client's end
	p.write([]byte(comment))
	tick := time.NewTicker(every)
	defer tick.Stop()
	for open := true; open; {
		select {
		case <-tick.C:
			p.write([]byte(comment))
		case <-ctx.Done():
			p.end(true)
		case <-p.done:
			open = false
		}
	}
	p.mu.Lock() // whoever writes ends within the limit
	p.ended = true
	p.mu.Unlock()
	if p.torn {
		panic(http.ErrAbortHandler)
	}
}

func (p *response) end(torn bool) {
	p.once.Do(func() {
		p.torn = torn
		close(p.done)
	})
}

func (p *response) write(parts ...[]byte) {
	if p.locked(parts...) != nil {
		p.end(true)
	}
}

func (p *response) locked(parts ...[]byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return net.ErrClosed
	}
	for _, b := range parts {
		for len(b) > 0 {
			n := min(len(b), rawsock.Piece)
			_ = p.rc.SetWriteDeadline(time.Now().Add(p.limit)) // a recorder in a test has none
			if _, err := p.w.Write(b[:n]); err != nil {
				return err
			}
			b = b[n:]
		}
	}
	_ = p.rc.SetWriteDeadline(time.Now().Add(p.limit))
	err := p.rc.Flush()
	_ = p.rc.SetWriteDeadline(time.Time{}) // in HTTP/2 it would reset the stream also while nobody writes
	return err
}

func (p *response) send(f *fanout.Frame) error { return p.locked(f.Bytes) }

func (p *response) trySend(f *fanout.Frame, done func(error)) (bool, error) {
	rest := f.Rest(0)
	go func() { done(p.locked(rest...)) }()
	return true, nil
}

func (p *response) finish() {
	go func() {
		err := p.locked([]byte(complete))
		p.end(err != nil)
	}()
}

func (p *response) cut() { p.end(true) }
