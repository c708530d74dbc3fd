// Package httpserver is the way from a socket to GraphQL: routes, time limits, the check of origins, bodies,
// health. It knows neither GraphQL nor Kafka.
//
// A request meets, in this order: headers.go (what every answer carries), deadlines.go (no peer holds a
// connection by reading or writing slowly), origin.go (which web pages may ask), body.go (how much), and then
// the GraphQL handler.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of the HTTP side. They bound what one peer can hold; none of them cuts a stream that lives.
type Limits struct {
	BodyBytes     int64         // of a request; more is answered 413
	HeaderBytes   int           // of a request, the query of a GET included
	HeaderTimeout time.Duration // until the headers have arrived
	BodyTimeout   time.Duration // until the body has arrived
	WriteTimeout  time.Duration // for one write to a peer that does not read; not for a whole answer
	IdleTimeout   time.Duration // between two requests of a connection
}

// DefaultLimits is what chathome serves with.
func DefaultLimits() Limits {
	return Limits{
		BodyBytes:     64 << 10,
		HeaderBytes:   32 << 10,
		HeaderTimeout: 5 * time.Second,
		BodyTimeout:   10 * time.Second,
		WriteTimeout:  10 * time.Second,
		IdleTimeout:   75 * time.Second,
	}
}

// Config is what a Server serves.
type Config struct {
	GraphQL http.Handler    // /graphql
	Page    http.Handler    // / and what it loads; nil where GraphiQL is off
	Ready   func() []Reason // why this instance is not ready; none when it is
	Origins Origins
	Limits  Limits
	Log     *slog.Logger
}

// ErrStopping is the cause with which the contexts of streams and sockets end when the server stops. A
// transport should then tell its client to reconnect elsewhere.
var ErrStopping = errors.New("the server is stopping")

// Server serves HTTP until it is shut down.
type Server struct {
	http    *http.Server
	ending  context.Context // done when streams have to end
	end     context.CancelCauseFunc
	streams sync.WaitGroup // streams and sockets whose handlers run
}

// New returns a server that is ready to Serve.
func New(cfg Config) *Server {
	s := &Server{}
	s.ending, s.end = context.WithCancelCause(context.Background())
	s.http = &http.Server{
		Handler:           s.routes(cfg),
		ReadHeaderTimeout: cfg.Limits.HeaderTimeout,
		IdleTimeout:       cfg.Limits.IdleTimeout,
		MaxHeaderBytes:    cfg.Limits.HeaderBytes,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		// ReadTimeout and WriteTimeout stay 0: they would count from the start of a request and cut every
		// stream (golang/go#16100). deadlines.go and body.go set deadlines for single reads and writes.
	}
	return s
}

func (s *Server) routes(cfg Config) http.Handler {
	graphql := limitBody(cfg.Limits, cfg.GraphQL)
	graphql = s.endWithServer(graphql)
	graphql = cfg.Origins.check(graphql)

	mux := http.NewServeMux()
	mux.Handle("/graphql", graphql)
	mux.Handle("GET /healthz", http.HandlerFunc(health))
	mux.Handle("GET /readyz", readiness(cfg.Ready))
	if cfg.Page != nil {
		mux.Handle("/", readOnly(cfg.Page))
	}
	return secure(deadlines(cfg.Limits.WriteTimeout, mux))
}

// readOnly: a pattern with a method would conflict with /graphql, which takes all.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// endWithServer ends the context of a stream or socket when the server stops, with the cause ErrStopping.
// Other requests are left to finish.
func (s *Server) endWithServer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isStream(r) {
			next.ServeHTTP(w, r)
			return
		}
		s.streams.Add(1)
		defer s.streams.Done()
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		stop := context.AfterFunc(s.ending, func() { cancel(ErrStopping) })
		defer stop()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Serve answers on l until Shutdown, and returns nil then.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP: %w", err)
}

// Shutdown ends streams and sockets, lets other requests finish, and closes what is left when ctx ends. The
// error says that something was left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end(ErrStopping)
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
		return fmt.Errorf("requests were still being answered: %w", err)
	}
	done := make(chan struct{})
	go func() {
		s.streams.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("peers of sockets did not answer the close: %w", ctx.Err())
	}
}
