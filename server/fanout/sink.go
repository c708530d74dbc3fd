package fanout

// Event is one response of an operation, encoded once and sent to everybody who wants the same bytes. It
// never changes after it was made.
type Event struct {
	// Payload is the response as JSON in one line: {"data":…}, or {"errors":[…],"data":null}.
	Payload []byte
	// Cursor is where a client resumes that has this event: a safe "after". Empty where the operation has
	// none (a query, an error, a stream without cursors). SSE makes it the event's id.
	Cursor string
}

// Sink is one operation's way to its client: a WebSocket's messages with the operation's id, or an SSE
// response. This package calls it; server/ws and server/sse implement it.
//
// Calls never overlap, and nothing is sent while an earlier TrySend is pending, with one exception: Fail may
// come at any time, more than once. After Complete or Fail only Fail is called.
type Sink interface {
	// Frame builds what goes over the wire for e: mostly one call of b.Build.
	Frame(b *Builder, e *Event) *Frame

	// TrySend writes f without waiting for the client. Either it is over at once (pending is false, err
	// says how), or the rest goes out in the background (pending is true) and done is called exactly once,
	// from any goroutine, perhaps before TrySend returns. The background write ends within the transport's
	// write deadline. f is valid until TrySend returns; f.Rest gives what may be kept.
	//
	// This is called from the goroutine that serves all members of a group: whatever waits here makes
	// everybody wait.
	TrySend(f *Frame, done func(error)) (pending bool, err error)

	// Send writes f and waits, at most for the transport's write deadline. Only a goroutine that serves
	// this one client calls it.
	Send(f *Frame) error

	// Complete tells the client that nothing more will come. It must not wait for the client either.
	Complete()

	// Fail is called after a write that failed and for executions that cannot go on: a frame may be torn,
	// so the connection is of no more use. It must not wait.
	Fail(err error)
}

// Layout says what stands around a payload on the wire: header, prefix, payload, suffix. The prefix is the
// operation's own and comes with each Build; all else is the same for all sinks with the same Layout.
type Layout struct {
	// Header appends what comes first: it may depend only on n, the number of bytes that follow. nil: nothing.
	Header func(dst []byte, n int) []byte
	Suffix []byte
}

// Frame is one event as one client gets it. It belongs to the Builder that made it.
type Frame struct {
	Bytes   []byte // header, prefix, payload and suffix in one piece: one write
	head    int    // length of header and prefix
	payload []byte
	suffix  []byte
}

// NewFrame is a frame that is no event.
func NewFrame(b []byte) *Frame { return &Frame{Bytes: b, head: len(b)} }

// Rest gives what is left of f behind its first n bytes, in up to three pieces that stay valid. The payload
// is not copied: a thousand clients that stopped reading in the middle of one event share it.
func (f *Frame) Rest(n int) [][]byte {
	var rest [][]byte
	if n < f.head {
		rest = append(rest, append([]byte(nil), f.Bytes[n:f.head]...))
	}
	n = max(0, n-f.head)
	if n < len(f.payload) {
		rest = append(rest, f.payload[n:])
	}
	n = max(0, n-len(f.payload))
	if n < len(f.suffix) {
		rest = append(rest, f.suffix[n:])
	}
	return rest
}

// Builder builds frames in a buffer that it uses again. Mostly the next client wants the event that the last
// one got, with another id of the same length: then only the prefix is written anew.
type Builder struct {
	frame  Frame
	event  *Event
	layout *Layout
	prefix int
}

// maxKept bounds the buffer that a Builder keeps between events.
const maxKept = 256 << 10

// Build builds the frame of e. The prefix is copied; suffix and payload are referred to.
func (b *Builder) Build(l *Layout, prefix []byte, e *Event) *Frame {
	f := &b.frame
	if b.event == e && b.layout == l && b.prefix == len(prefix) {
		copy(f.Bytes[f.head-len(prefix):], prefix)
		return f
	}
	buf := f.Bytes[:0]
	if cap(buf) > maxKept {
		buf = nil
	}
	if l.Header != nil {
		buf = l.Header(buf, len(prefix)+len(e.Payload)+len(l.Suffix))
	}
	buf = append(buf, prefix...)
	f.head = len(buf)
	buf = append(buf, e.Payload...)
	f.Bytes = append(buf, l.Suffix...)
	f.payload, f.suffix = e.Payload, l.Suffix
	b.event, b.layout, b.prefix = e, l, len(prefix)
	return f
}
