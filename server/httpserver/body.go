package httpserver

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// limitBody reads a request's body before anything else does: at most BodyBytes, within BodyTimeout, and only
// as it is (a compressed one could unfold to anything). The handler finds it in memory.
func limitBody(limits Limits, next http.Handler) http.Handler {
	buffers := &sync.Pool{New: func() any { return new(bytes.Buffer) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
			next.ServeHTTP(w, r)
			return
		}
		if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
			refuse(w, http.StatusUnsupportedMediaType, "send the body without Content-Encoding")
			return
		}
		if r.ContentLength > limits.BodyBytes {
			refuseLarge(w, limits.BodyBytes)
			return
		}
		buffer := buffers.Get().(*bytes.Buffer)
		buffer.Reset()
		defer buffers.Put(buffer)
		if err := readBody(w, r, buffer, limits); err != nil {
			refuseBody(w, err, limits.BodyBytes)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(buffer.Bytes()))
		r.ContentLength = int64(buffer.Len())
		next.ServeHTTP(w, r)
	})
}

func readBody(w http.ResponseWriter, r *http.Request, into *bytes.Buffer, limits Limits) error {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(limits.BodyTimeout))
	if _, err := into.ReadFrom(http.MaxBytesReader(w, r.Body, limits.BodyBytes)); err != nil {
		return err // the deadline stays: net/http reads some of the rest before it closes
	}
	// It goes on reading in the background, to see the client leave: without a deadline again.
	_ = control.SetReadDeadline(time.Time{})
	return nil
}

func refuseBody(w http.ResponseWriter, err error, limit int64) {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		refuseLarge(w, limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusRequestTimeout, "the body did not arrive in time")
	default:
		refuse(w, http.StatusBadRequest, "the body could not be read")
	}
}
