package sse

import (
	"encoding/json"
	"strconv"

	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/server/fanout"
)

const (
	// comment is what keeps a stream alive. Some browsers show a stream as open only after its first bytes.
	comment = ":\n\n"
	// complete has a data line: without one an EventSource does not report the event.
	complete = "event: complete\ndata:\n\n"

	nextHead = "event: next\ndata: "
	nextTail = "\n\n"
)

// appendPrefix writes what stands before an event's payload. id is a cursor, empty where the operation has none.
func appendPrefix(dst []byte, id string) []byte {
	if id != "" {
		dst = append(dst, "id: "...)
		dst = append(dst, id...)
		dst = append(dst, '\n')
	}
	return append(dst, nextHead...)
}

// refused is the whole stream of an operation that was not executed: its errors, without a data entry.
func refused(errs gqlerror.List) []byte {
	payload, err := json.Marshal(struct {
		Errors gqlerror.List `json:"errors"`
	}{errs})
	if err != nil { // extensions of an error that are no JSON
		payload = []byte(`{"errors":[{"message":"internal error","extensions":{"code":"INTERNAL"}}]}`)
	}
	return []byte(nextHead + string(payload) + nextTail + complete)
}

// plain is the layout of an event where net/http frames it.
func plain() *fanout.Layout { return &fanout.Layout{Suffix: []byte(nextTail)} }

// chunked is the layout of an event that is one chunk of an HTTP/1.1 body (RFC 9112, section 7.1).
func chunked() *fanout.Layout {
	return &fanout.Layout{
		Header: func(dst []byte, n int) []byte {
			dst = strconv.AppendInt(dst, int64(n-len("\r\n")), 16)
			return append(dst, "\r\n"...)
		},
		Suffix: []byte(nextTail + "\r\n"),
	}
}

// chunk frames data; lastChunk ends the body.
func chunk(data string) []byte {
	b := strconv.AppendInt(nil, int64(len(data)), 16)
	b = append(b, "\r\n"...)
	b = append(b, data...)
	return append(b, "\r\n"...)
}

const lastChunk = "0\r\n\r\n"
