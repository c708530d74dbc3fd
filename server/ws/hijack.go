package ws

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
)

// Sizes of the buffers in place of net/http's, which are 4 KB each. coder/websocket keeps both as long as the
// connection lives. The writer's must hold the largest control frame (2+125 bytes), so that coder hands each
// over in one piece.
const (
	readBuffer  = 256
	writeBuffer = 128
)

// hijacker wraps the ResponseWriter of an upgrade, so that what coder/websocket hijacks is our wire.
type hijacker struct {
	http.ResponseWriter
	make func(net.Conn) *wire
	wire *wire // set by Hijack
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, brw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	w := h.make(c)
	h.wire = w

	// A client may send connection_init right behind its request, so that net/http has it already. coder
	// takes over only what lies in the reader's buffer.
	early, _ := brw.Reader.Peek(brw.Reader.Buffered())
	r := io.Reader(c)
	if len(early) > 0 {
		r = io.MultiReader(bytes.NewReader(bytes.Clone(early)), c)
	}
	br := bufio.NewReaderSize(r, max(readBuffer, len(early)))
	_, _ = br.Peek(len(early))
	return w, bufio.NewReadWriter(br, bufio.NewWriterSize(w, writeBuffer)), nil
}

// Unwrap lets http.ResponseController through.
func (h *hijacker) Unwrap() http.ResponseWriter { return h.ResponseWriter }
