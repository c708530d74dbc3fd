package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/chathome/chathome/kafkasvc"
)

// Sources are what a scrape asks. None may be nil.
type Sources struct {
	Version   string
	Home      func() kafkasvc.Stats
	Followers *Followers

	// How many there are now.
	Subscriptions, Sockets, Streams func() int
}

// Register adds everything to a registry.
func Register(to prometheus.Registerer, s Sources) error {
	number := func(name, help string, read func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(read()) })
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "chathome_build_info", Help: "1, with the version of this program.", ConstLabels: prometheus.Labels{"version": s.Version},
	})
	build.Set(1)
	all := append(s.Followers.collectors(), build, newCollector(s.Home),
		number("chathome_subscriptions", "Subscriptions that follow something now.", s.Subscriptions),
		number("chathome_sockets", "WebSockets that are open now.", s.Sockets),
		number("chathome_streams", "Event streams that are open now.", s.Streams),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	var errs []error
	for _, c := range all {
		errs = append(errs, to.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// Server answers scrapes, on a listener of its own: metrics are not for the clients of the API.
type Server struct {
	http     *http.Server
	listener net.Listener
}

// Times of a scrape. Prometheus waits 10 s by default.
const (
	scrapeTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
)

// NewServer serves from g on l, at /metrics.
func NewServer(g prometheus.Gatherer, l net.Listener, log *slog.Logger) *Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: scrapeTimeout}))
	return &Server{listener: l, http: &http.Server{
		Handler: mux, ReadHeaderTimeout: scrapeTimeout, WriteTimeout: 2 * scrapeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: 16 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
}

// Serve answers until Shutdown, and returns nil then.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// Shutdown lets a scrape under way end, until ctx does. It may come before Serve.
func (s *Server) Shutdown(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("a scrape was under way: %w", err), s.http.Close())
	}
	return nil
}
