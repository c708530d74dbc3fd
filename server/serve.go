package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	neturl "net/url"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/certificate"
	"github.com/chathome/chathome/server/config"
	"github.com/chathome/chathome/server/graphiql"
	"github.com/chathome/chathome/server/httpserver"
	"github.com/chathome/chathome/server/metrics"
	"github.com/chathome/chathome/server/peers"
)

// Folders below the data directory. They are apart, so that an instance and a broker may share one.
const (
	localFolder  = "local"
	brokerFolder = "broker"
)

// serve runs one instance until it is told to stop.
func (p process) serve(cfg config.Config, secrets config.Secrets) error {
	log := p.logger(cfg.Logging)
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen for HTTP: %w", err)
	}
	if cfg.AdvertisedURL == "" {
		cfg.AdvertisedURL = cfg.Scheme() + "://" + reachable(cfg.Listen, listener.Addr())
	}
	warn(cfg, log)
	var scrapes net.Listener
	if cfg.MetricsListen != "" {
		if scrapes, err = net.Listen("tcp", cfg.MetricsListen); err != nil {
			return errors.Join(fmt.Errorf("listen for scrapes of metrics: %w", err), listener.Close())
		}
		defer func() { _ = scrapes.Close() }() // the metrics server has closed it, unless the start failed
	}
	kafka, err := openKafka(cfg, secrets, log)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	house, err := openHome(cfg, kafka, log)
	if err != nil {
		return errors.Join(err, kafka.close(), listener.Close())
	}
	i, err := newInstance(cfg, house, listener, scrapes, log)
	if err != nil {
		return errors.Join(err, house.Close(), kafka.close(), listener.Close())
	}
	if cfg.Embedded() {
		i.broker = kafka.close
	}
	if scrapes != nil {
		log.Info("serving metrics", "url", "http://"+reachable(cfg.MetricsListen, scrapes.Addr())+"/metrics")
	}
	log.Info("serving", "version", version(), "instance", house.Instance().ID, "url", cfg.AdvertisedURL, "embedded", cfg.Embedded())
	if cfg.GraphiQL {
		fmt.Fprintf(p.out, "GraphiQL: %s://%s/\n", cfg.Scheme(), reachable(cfg.Listen, listener.Addr()))
	}
	return i.run(p)
}

// newInstance puts HTTP and GraphQL around a home. scrapes is nil where there are no metrics.
func newInstance(cfg config.Config, house home, listener, scrapes net.Listener, log *slog.Logger) (*instance, error) {
	i := &instance{log: log, home: house, listener: listener, budget: cfg.ShutdownTimeout}
	var page http.Handler
	var err error
	if cfg.GraphiQL {
		if page, err = graphiql.New(); err != nil {
			return nil, fmt.Errorf("prepare GraphiQL: %w", err)
		}
	}
	proxies, err := peers.ParseProxies(cfg.TrustedProxies)
	if err != nil {
		return nil, fmt.Errorf("trusted proxies: %w", err)
	}
	var secure *tls.Config
	if cfg.TLSCert != "" {
		files, err := certificate.Open(cfg.TLSCert, cfg.TLSKey, log)
		if err != nil {
			return nil, err
		}
		secure = files.Config()
	}
	room := allows(log)
	limits := httpserver.DefaultLimits()
	limits.Connections, limits.ConnectionsPerAddress = room.connections, room.connectionsPerAddress
	d := doors{
		proxies:       proxies,
		followers:     peers.NewLimiter(room.followers, room.followersPerAddress),
		operations:    peers.NewLimiter(operationsEach*room.followers, operationsEach*room.followersPerAddress),
		introspection: cfg.Introspection, log: log,
	}
	followers := metrics.NewFollowers()
	if scrapes != nil {
		d.sockets, d.events = followers, followers
	}
	ways, err := mount(graph.New(house), d)
	if err != nil {
		return nil, err
	}
	if scrapes != nil {
		registry := prometheus.NewRegistry()
		err := metrics.Register(registry, metrics.Sources{
			Version: version(), Home: house.Stats, Followers: followers,
			Subscriptions: ways.subscriptions, Sockets: ways.sockets, Streams: ways.streams,
		})
		if err != nil {
			return nil, err
		}
		i.metrics = metrics.NewServer(registry, scrapes, log)
	}
	i.http = httpserver.New(httpserver.Config{
		GraphQL: ways, EndStreams: ways.shutdown,
		Page:  page,
		Ready: i.notReady,
		Origins: httpserver.Origins{
			Allowed:    cfg.AllowedOrigins,
			Advertised: cfg.AdvertisedURL,
			Local:      config.Loopback(listener.Addr().String()),
		},
		Limits:  limits,
		Proxies: proxies,
		TLS:     secure,
		Log:     log,
	})
	return i, nil
}

// reachable is the listen address as one would type it: the name that was configured, the port that was got.
func reachable(listen string, got net.Addr) string {
	host, _, err := net.SplitHostPort(listen)
	_, port, err2 := net.SplitHostPort(got.String())
	if err != nil || err2 != nil || host == "" {
		return got.String()
	}
	return net.JoinHostPort(host, port)
}

// warn tells what is allowed but rarely meant.
func warn(cfg config.Config, log *slog.Logger) {
	if !config.Loopback(cfg.Listen) {
		log.Warn("listening beyond this machine: the user of a message is a claim and not a proof; put a gateway that authenticates in front", "listen", cfg.Listen)
	}
	if everywhere(cfg.AdvertisedURL) {
		log.Warn("the advertised URL names no host that others can reach: set --advertised-url", "url", cfg.AdvertisedURL)
	}
	if cfg.KafkaSASL == config.SASLPlain && !cfg.KafkaTLS {
		log.Warn("the password for Kafka goes over the network in clear text: use --kafka-tls or another --kafka-sasl")
	}
	if cfg.Embedded() {
		log.Info("using the embedded broker, which is for one machine and for trying out; name Kafka with --brokers for the rest")
	}
}

// folder is a folder of the data directory, or in memory as that is.
func folder(dataDir, name string) string {
	if dataDir == config.InMemory {
		return dataDir
	}
	return filepath.Join(dataDir, name)
}

// everywhere: an address that means "all of mine" is no address for others.
func everywhere(url string) bool {
	u, err := neturl.Parse(url)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && ip.IsUnspecified()
}
