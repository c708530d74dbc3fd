package httpserver

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// bodyDeadline gives a body limit to arrive. How large it may be is the handler's business. The deadline begins
// before anything is read: net/http reads some of a body that its handler did not want.
func bodyDeadline(limit time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Now().Add(limit))
		body := r.Body
		r.Body = &timedBody{ReadCloser: body, control: control}
		next.ServeHTTP(w, r)
		// net/http looks at the type of a body that was not read to its end: only behind its own it closes
		// the connection so that the client still reads the answer.
		r.Body = body
	})
}

type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

// Read takes the deadline away at the end: net/http goes on reading in the background then, to see the client
// leave.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
