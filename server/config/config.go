// Package config is everything that can be set from outside: flags, their environment variables, defaults
// and the rules that relate them.
//
// A flag --data-dir has the environment variable CHATHOME_DATA_DIR; the flag wins. docs/CONFIGURATION.md
// lists them all, and a test holds that list to this package.
package config

import (
	"log/slog"
	"time"
)

// Times that are not for operators to set, because the protocol's safety is argued with them (docs/CONFIGURATION.md).
const (
	RPCTimeout  = time.Second            // longest wait for one answer of a broker
	LeaseMargin = 500 * time.Millisecond // taken off the lease for clocks that do not run alike
	DrainTime   = time.Second            // given to outstanding batches when a generation ends
)

// Gate is the policy for opening shards after an assignment.
type Gate string

const (
	GateInstance Gate = "instance" // open when all assigned shards are loaded
	GateShard    Gate = "shard"    // a loaded shard opens while others load
)

// LogFormat is how log lines are written.
type LogFormat string

const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// SASL is a mechanism of authentication at the brokers.
type SASL string

const (
	SASLNone        SASL = "none"
	SASLPlain       SASL = "plain"
	SASLScramSHA256 SASL = "scram-sha-256"
	SASLScramSHA512 SASL = "scram-sha-512"
)

// InMemory as a data directory keeps everything in memory: nothing outlives the process.
const InMemory = ":memory:"

// Logging is common to all commands that run on.
type Logging struct {
	LogLevel  slog.Level `group:"Logging" help:"Least severe level that is logged: debug, info, warn or error."`
	LogFormat LogFormat  `group:"Logging" help:"How log lines are written: text or json."`
}

// Config is the configuration of one instance (chathome serve).
type Config struct {
	Listen         string   `group:"Server" placeholder:"HOST:PORT" help:"Address to serve HTTP on. Port 0 takes a free one."`
	AdvertisedURL  string   `group:"Server" name:"advertised-url" placeholder:"URL" help:"Where clients and other instances' clients reach this instance. Default: http:// (https:// with --tls-cert) and the listen address."`
	InstanceID     string   `group:"Server" name:"instance-id" placeholder:"ID" help:"Name of this instance, unique in the group: 1 to 64 letters, digits, dots, hyphens and underscores. Default: drawn once and kept in the data directory."`
	DataDir        string   `group:"Server" placeholder:"DIR" help:"Directory of the local store, and of the embedded broker. Only one process may use it. :memory: keeps nothing."`
	AllowedOrigins []string `group:"Server" placeholder:"ORIGIN,…" help:"Web origins beside the server's own that may use the API, as scheme://host[:port], comma-separated."`
	TrustedProxies []string `group:"Server" placeholder:"ADDRESS,…" help:"Proxies whose X-Forwarded-For is believed, as addresses or prefixes such as 10.0.0.0/8, comma-separated. The limits for one address are the client's then."`
	TLSCert        string   `group:"Server" name:"tls-cert" placeholder:"FILE" help:"PEM file with the certificate, and those between it and the authority, to serve HTTPS with. Read again when it changes."`
	TLSKey         string   `group:"Server" name:"tls-key" placeholder:"FILE" help:"PEM file with the certificate's key. Read again when it changes."`
	GraphiQL       bool     `group:"Server" name:"graphiql" negatable:"" help:"Serve GraphiQL at /. Turn it off with --no-graphiql or --graphiql=off."`
	Introspection  bool     `group:"Server" negatable:"" help:"Answer questions about the GraphQL schema. Turn it off with --no-introspection or --introspection=off."`

	MetricsListen string `group:"Server" placeholder:"HOST:PORT" help:"Address to serve metrics for Prometheus on, at /metrics. Default: nowhere."`

	ShutdownTimeout time.Duration `group:"Server" help:"Longest time a stop may take after the first SIGINT or SIGTERM. A second signal exits at once."`

	Brokers           []string `group:"Kafka" placeholder:"HOST:PORT,…" help:"Kafka brokers to start from, comma-separated. Default: an embedded broker, for one machine and for trying out."`
	TopicPrefix       string   `group:"Kafka" placeholder:"NAME" help:"The topics are PREFIX.messages and PREFIX.directory."`
	GroupID           string   `group:"Kafka" name:"group-id" placeholder:"NAME" help:"Consumer group of the instances that share the work. Default: the topic prefix."`
	Shards            int      `group:"Kafka" help:"Number of shards, used only when the topics are created: it is pinned for ever then."`
	ReplicationFactor int      `group:"Kafka" placeholder:"N" help:"Copies of each record, used only when the topics are created. Default: 3, or the number of brokers where there are fewer."`
	MinInsyncReplicas int      `group:"Kafka" placeholder:"N" help:"Copies that must be written before a message is acknowledged, used only when the topics are created. Default: 2 where the replication factor is 3 or more, else 1."`

	Gate              Gate          `group:"Membership" help:"When assigned shards open: instance (when all of them are loaded) or shard (each when it is loaded)."`
	HeartbeatInterval time.Duration `group:"Membership" help:"Time between heartbeats to the group's coordinator. A planned handover takes about one."`
	SessionTimeout    time.Duration `group:"Membership" help:"After this time without a heartbeat an instance counts as dead. A stock Kafka takes 6s to 30m."`
	RebalanceTimeout  time.Duration `group:"Membership" help:"Time that an instance has to rejoin when the group rebalances."`

	KafkaTLS          bool   `group:"Kafka security" name:"kafka-tls" negatable:"" help:"Speak TLS with the brokers."`
	KafkaTLSCA        string `group:"Kafka security" name:"kafka-tls-ca" placeholder:"FILE" help:"PEM file with the authorities to trust instead of the system's."`
	KafkaTLSCert      string `group:"Kafka security" name:"kafka-tls-cert" placeholder:"FILE" help:"PEM file with this client's certificate."`
	KafkaTLSKey       string `group:"Kafka security" name:"kafka-tls-key" placeholder:"FILE" help:"PEM file with the key of this client's certificate."`
	KafkaSASL         SASL   `group:"Kafka security" name:"kafka-sasl" help:"How to authenticate: none, plain, scram-sha-256 or scram-sha-512."`
	KafkaUser         string `group:"Kafka security" placeholder:"NAME" help:"User to authenticate as."`
	KafkaPasswordFile string `group:"Kafka security" placeholder:"FILE" help:"File with the password; one line end after it is ignored. A password is never taken from the command line."`

	Logging
}

// Embedded says whether the instance runs its own broker.
func (c *Config) Embedded() bool { return len(c.Brokers) == 0 }

// Scheme is that of the server's own URL.
func (c *Config) Scheme() string {
	if c.TLSCert != "" {
		return "https"
	}
	return "http"
}

// Group is the consumer group: the one set, or the topic prefix.
func (c *Config) Group() string {
	if c.GroupID != "" {
		return c.GroupID
	}
	return c.TopicPrefix
}

// Broker is the configuration of the embedded broker as a process of its own (chathome broker).
type Broker struct {
	Listen          string        `group:"Broker" placeholder:"HOST:PORT" help:"Address to serve Kafka's protocol on. Only loopback addresses are allowed: this broker must not meet strangers."`
	DataDir         string        `group:"Broker" placeholder:"DIR" help:"Directory that the broker keeps its records below. :memory: keeps nothing."`
	ShutdownTimeout time.Duration `group:"Broker" help:"Longest time a stop may take after the first SIGINT or SIGTERM. A second signal exits at once."`

	Logging
}

// Defaults is what holds where nothing is set.
func Defaults() Config {
	return Config{
		Listen:            "127.0.0.1:8080",
		DataDir:           "./.chathome",
		GraphiQL:          true,
		Introspection:     true,
		ShutdownTimeout:   10 * time.Second,
		TopicPrefix:       "chathome",
		Shards:            12,
		Gate:              GateInstance,
		HeartbeatInterval: 200 * time.Millisecond,
		SessionTimeout:    6 * time.Second,
		RebalanceTimeout:  4 * time.Second,
		KafkaSASL:         SASLNone,
		Logging:           Logging{LogLevel: slog.LevelInfo, LogFormat: LogText},
	}
}

// BrokerDefaults is what holds for the broker command where nothing is set.
func BrokerDefaults() Broker {
	d := Defaults()
	return Broker{
		Listen:          "127.0.0.1:9092",
		DataDir:         d.DataDir,
		ShutdownTimeout: d.ShutdownTimeout,
		Logging:         d.Logging,
	}
}
