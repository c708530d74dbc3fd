package sse

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/peers"
)

// Config of a Server. The zero value of a field means its default.
type Config struct {
	// Hub executes operations and shares events; the same one as for WebSocket. nil: one of its own.
	Hub *fanout.Hub
	// WriteTimeout is how long a client may take to read 16 KiB; after that it is cut. Default 10 s.
	WriteTimeout time.Duration
	// KeepAlive is the time between comments on a stream; a peer that died without a word is found within
	// two of them and a write timeout. Default 12 s.
	KeepAlive time.Duration
	// SendBuffer is what the kernel may keep for a client that does not read, in bytes. Default 64 KiB.
	SendBuffer int
	// Proxies are believed about a client's address.
	Proxies peers.Proxies
	// Limiter bounds streams; it may be the one for WebSockets. nil: MaxStreams and MaxPerAddress make one.
	Limiter *peers.Limiter
	// Operations bounds what the streams' operations count, by fanout.Weight; it may be the one for WebSockets. nil: it
	// does not.
	Operations *peers.Limiter

	MaxStreams    int // default 16,384
	MaxPerAddress int // default 4,096: a whole company may stand behind one address
}

func (c Config) withDefaults() Config {
	if c.Hub == nil {
		c.Hub = fanout.New(fanout.Config{})
	}
	if c.WriteTimeout <= 0 {
		c.WriteTimeout = 10 * time.Second
	}
	if c.KeepAlive <= 0 {
		c.KeepAlive = 12 * time.Second
	}
	if c.SendBuffer <= 0 {
		c.SendBuffer = 64 << 10
	}
	if c.MaxStreams <= 0 {
		c.MaxStreams = 16_384
	}
	if c.MaxPerAddress <= 0 {
		c.MaxPerAddress = 4096
	}
	if c.Limiter == nil {
		c.Limiter = peers.NewLimiter(c.MaxStreams, c.MaxPerAddress)
	}
	if c.Operations == nil {
		c.Operations = peers.NewLimiter(0, 0)
	}
	return c
}

// Server serves event streams.
type Server struct {
	cfg            Config
	plain, chunked *fanout.Layout

	mu      sync.Mutex
	streams map[*stream]struct{}
	open    int // streams, and those that are about to be
	closing bool
	ended   sync.WaitGroup // of open
}

// New returns a ready Server.
func New(cfg Config) *Server {
	return &Server{cfg: cfg.withDefaults(), plain: plain(), chunked: chunked(), streams: map[*stream]struct{}{}}
}

// wire is the way to one client. Only cut may be called while another call is under way.
type wire interface {
	// trySend and send are as in fanout.Sink.
	trySend(f *fanout.Frame, done func(error)) (pending bool, err error)
	send(f *fanout.Frame) error
	// finish sends complete, ends the body and lets the connection go. It does not wait.
	finish()
	// cut ends the connection without a word, so that the client sees a fault and comes back.
	cut()
}

// stream is one operation on its wire.
type stream struct {
	wire    wire
	layout  *fanout.Layout
	sub     *fanout.Subscription
	prefix  []byte // written anew for each event
	release func()
	expire  *time.Timer // nil: never
}

var _ fanout.Sink = (*stream)(nil)

// Frame is part of fanout.Sink.
func (s *stream) Frame(b *fanout.Builder, e *fanout.Event) *fanout.Frame {
	s.prefix = appendPrefix(s.prefix[:0], e.Cursor)
	return b.Build(s.layout, s.prefix, e)
}

// TrySend is part of fanout.Sink.
func (s *stream) TrySend(f *fanout.Frame, done func(error)) (bool, error) {
	return s.wire.trySend(f, done)
}

// Send is part of fanout.Sink.
func (s *stream) Send(f *fanout.Frame) error { return s.wire.send(f) }

// Complete is part of fanout.Sink.
func (s *stream) Complete() { s.wire.finish() }

// Fail is part of fanout.Sink.
func (s *stream) Fail(error) { s.wire.cut() }

// Request is one operation to stream. Its checks are done.
type Request struct {
	Exec      graphql.GraphExecutor
	Operation *graphql.OperationContext
	Viewer    string    // everybody with the same one may be sent the same bytes
	Expiry    time.Time // when the viewer has to come again, with a new proof; zero: never
}

// Serve executes an operation and streams its results. It may return before the stream ends.
func (s *Server) Serve(w http.ResponseWriter, r *http.Request, q Request) {
	release, ok := s.admit(r, fanout.Weight(q.Operation))
	if !ok {
		overloaded(w)
		return
	}
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		q.Operation = resumed(q.Operation, id)
	}
	setHeaders(w.Header())
	st := &stream{release: release}
	run := func() {
		st.sub.Run(fanout.Request{Exec: q.Exec, Operation: q.Operation, Viewer: q.Viewer})
	}
	if sock := s.hijack(w, r); sock != nil {
		// The handler returns and its context ends, the stream goes on.
		st.wire, st.layout = sock, s.chunked
		st.sub = s.cfg.Hub.NewSubscription(context.WithoutCancel(r.Context()), st)
		s.enter(st, q.Expiry)
		go func() {
			defer s.leave(st)
			sock.watch(s.cfg.KeepAlive)
			st.sub.Stop()
		}()
		run()
		return
	}
	resp := newResponse(w, s.cfg.WriteTimeout)
	st.wire, st.layout = resp, s.plain
	st.sub = s.cfg.Hub.NewSubscription(r.Context(), st)
	s.enter(st, q.Expiry)
	defer s.leave(st)
	defer st.sub.Stop()
	go run()
	resp.watch(r.Context(), s.cfg.KeepAlive)
}

// Refuse answers an operation that did not pass its checks with a stream of its own: an EventSource learns
// nothing from any other response (graphql-sse, "Distinct connections mode").
func (s *Server) Refuse(w http.ResponseWriter, errs gqlerror.List) {
	setHeaders(w.Header())
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(refused(errs)) // who does not read any more needs no answer
}

func setHeaders(h http.Header) {
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no") // nginx would collect events
	h.Set("X-Content-Type-Options", "nosniff")
	h.Add("Vary", "Accept")
}

func overloaded(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Retry-After", "1")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(`{"errors":[{"message":"too many event streams; nothing was executed",` +
		`"extensions":{"code":"OVERLOADED","retryAfterMs":1000}}]}`))
}

// admit takes a place, which leave gives back. false when there are too many, or the server is stopping.
func (s *Server) admit(r *http.Request, weight int) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, false
	}
	from := s.cfg.Proxies.Client(r)
	stream, ok := s.cfg.Limiter.Acquire(from)
	if !ok {
		return nil, false
	}
	operation, ok := s.cfg.Operations.AcquireN(from, weight)
	if !ok {
		stream()
		return nil, false
	}
	s.open++
	s.ended.Add(1)
	return func() { stream(); operation() }, true
}

// enter lets Shutdown and the expiry find a stream that has its wire.
func (s *Server) enter(st *stream, expiry time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams[st] = struct{}{}
	if s.closing { // it came in just before
		st.wire.cut()
	}
	if !expiry.IsZero() {
		st.expire = time.AfterFunc(time.Until(expiry), st.wire.cut)
	}
}

func (s *Server) leave(st *stream) {
	s.mu.Lock()
	delete(s.streams, st)
	s.open--
	s.mu.Unlock()
	if st.expire != nil {
		st.expire.Stop()
	}
	st.release()
	s.ended.Done()
}

// Streams is how many streams are open.
func (s *Server) Streams() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// Shutdown ends all streams in a way that makes their clients come back, somewhere else, and refuses new ones.
// It returns when they are gone, or with the context's error. http.Server.Shutdown knows nothing of them.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	for st := range s.streams {
		st.wire.cut()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.ended.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("close event streams"), context.Cause(ctx))
	}
}
