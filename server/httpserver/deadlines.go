package httpserver

import (
	"bufio"
	"net"
	"net/http"
	"time"
)

// deadlines gives each single write limit to get through: a stream lives as long as its peer reads, and a peer
// that stops reading is cut. Sockets are not touched: their transport owns the connection.
func deadlines(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isUpgrade(r) {
			next.ServeHTTP(w, r)
			return
		}
		d := &deadlineWriter{ResponseWriter: w, control: http.NewResponseController(w), limit: limit, streams: r.ProtoMajor >= 2}
		d.extend() // what net/http writes by itself; and the last request may have left one behind
		d.written()
		defer d.extend() // net/http writes what is buffered when the handler has returned
		next.ServeHTTP(d, r)
	})
}

type deadlineWriter struct {
	http.ResponseWriter
	control  *http.ResponseController
	limit    time.Duration
	streams  bool // HTTP/2: a deadline is a timer that resets the stream, also while nobody writes
	hijacked bool
}

// extend may fail where there is no connection below, as in tests; then there is nobody to wait for.
func (d *deadlineWriter) extend() {
	if !d.hijacked {
		_ = d.control.SetWriteDeadline(time.Now().Add(d.limit))
	}
}

// written ends the time limit of one write where it would go on.
func (d *deadlineWriter) written() {
	if d.streams {
		_ = d.control.SetWriteDeadline(time.Time{})
	}
}

// Hijack is found by http.ResponseController. From then on the deadlines are those of who took the connection:
// net/http would still set ours on it.
func (d *deadlineWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	d.hijacked = true
	return d.control.Hijack()
}

func (d *deadlineWriter) Write(b []byte) (int, error) {
	d.extend()
	defer d.written()
	return d.ResponseWriter.Write(b)
}

// FlushError is found by http.ResponseController.
func (d *deadlineWriter) FlushError() error {
	d.extend()
	defer d.written()
	return d.control.Flush()
}

// Flush is for those who ask for an http.Flusher.
func (d *deadlineWriter) Flush() { _ = d.FlushError() }

// Unwrap lets http.ResponseController through.
func (d *deadlineWriter) Unwrap() http.ResponseWriter { return d.ResponseWriter }

func isUpgrade(r *http.Request) bool { return r.Header.Get("Upgrade") != "" }
