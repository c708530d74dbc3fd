// Package httpserver is the way from a socket to GraphQL: routes, time limits, the check of origins, health. It
// knows neither GraphQL nor Kafka.
//
// connections.go bounds who may connect. A request then meets, in this order: headers.go (what every answer carries), deadlines.go and body.go (no peer holds
// a connection by reading or writing slowly), origin.go (which web pages may ask), and then the GraphQL handler.
package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/chathome/chathome/server/peers"
)

// Limits of the HTTP side. They bound what one peer can hold; none of them cuts a stream that lives.
type Limits struct {
	HeaderBytes   int           // of a request, the query of a GET included
	HeaderTimeout time.Duration // until the headers have arrived
	BodyTimeout   time.Duration // until the body has arrived
	WriteTimeout  time.Duration // for one write to a peer that does not read; not for a whole answer
	IdleTimeout   time.Duration // between two requests of a connection

	// Connections that are no sockets or event streams, altogether and from one address; 0: any number.
	Connections, ConnectionsPerAddress int
	// Requests at once on one connection of HTTP/2.
	Requests int
}

// DefaultLimits is what chathome serves with.
func DefaultLimits() Limits {
	return Limits{
		HeaderBytes:   32 << 10,
		HeaderTimeout: 5 * time.Second,
		BodyTimeout:   10 * time.Second,
		WriteTimeout:  10 * time.Second,
		IdleTimeout:   75 * time.Second,
		Requests:      100,
	}
}

// Config is what a Server serves.
type Config struct {
	GraphQL http.Handler // /graphql; it bounds the size of bodies
	// EndStreams ends what net/http cannot: event streams and sockets. nil: there are none.
	EndStreams func(ctx context.Context) error
	Page       http.Handler    // / and what it loads; nil where GraphiQL is off
	Ready      func() []Reason // why this instance is not ready; none when it is
	Origins    Origins
	Limits     Limits
	Proxies    peers.Proxies // are many clients each, and not bound by ConnectionsPerAddress
	TLS        *tls.Config   // nil: without
	Log        *slog.Logger
}

// Server serves HTTP until it is shut down.
type Server struct {
	http       *http.Server
	endStreams func(ctx context.Context) error
}

// New returns a server that is ready to Serve.
func New(cfg Config) *Server {
	s := &Server{endStreams: cfg.EndStreams}
	if s.endStreams == nil {
		s.endStreams = func(context.Context) error { return nil }
	}
	s.http = &http.Server{
		Handler:           routes(cfg),
		ReadHeaderTimeout: cfg.Limits.HeaderTimeout,
		IdleTimeout:       cfg.Limits.IdleTimeout,
		ConnState:         newConnections(cfg.Limits, cfg.Proxies).changed,
		TLSConfig:         cfg.TLS,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: cfg.Limits.Requests,
			WriteByteTimeout:     cfg.Limits.WriteTimeout, // for the whole connection
			SendPingTimeout:      cfg.Limits.IdleTimeout,
		},
		MaxHeaderBytes: cfg.Limits.HeaderBytes,
		ErrorLog:       slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		// ReadTimeout and WriteTimeout stay 0: they would count from the start of a request and cut every
		// stream (golang/go#16100). deadlines.go and body.go set deadlines for single reads and writes.
	}
	return s
}

func routes(cfg Config) http.Handler {
	graphql := cfg.Origins.check(bodyDeadline(cfg.Limits.BodyTimeout, cfg.GraphQL))

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

// Serve answers on l until Shutdown, and returns nil then.
func (s *Server) Serve(l net.Listener) error {
	serve := s.http.Serve
	if s.http.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	err := serve(l)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve HTTP: %w", err)
}

// Shutdown ends streams and sockets, lets other requests finish, and closes what is left when ctx ends. The
// error says that something was left.
func (s *Server) Shutdown(ctx context.Context) error {
	streams := make(chan error, 1)
	go func() { streams <- s.endStreams(ctx) }()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("requests were still being answered: %w", err), s.http.Close())
	}
	return errors.Join(err, <-streams)
}
