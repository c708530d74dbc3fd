package kafkasvc

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/membership"
)

// Config says which home this is an instance of, and how.
type Config struct {
	// Kafka.
	Brokers  []string
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // nil: TCP
	TLS      func() *tls.Config                                                   // asked for each connection; nil: none
	SASL     sasl.Mechanism                                                       // nil: none
	Timeouts membership.Timeouts

	// The home. Two instances of one home have the same prefix and group.
	TopicPrefix       string
	GroupID           string
	Shards            int // used when the topics are created
	ReplicationFactor int // 0: 3, or the number of brokers if fewer
	MinInsync         int // 0: 2 where the factor is at least 3, else 1

	SingleBroker bool // the broker is the embedded one: nobody needs to be told that there is only one

	// This instance.
	InstanceID    string // "": kept in the data directory, drawn once
	AdvertisedURL string
	DataDir       string // local.InMemory for none
	Gate          Policy

	// RequestTimeout bounds a write whose caller set no deadline.
	RequestTimeout time.Duration
	// CommitInterval is the time between commits of the group's offsets, which lag tools show.
	CommitInterval time.Duration
	// LoadBudget bounds what loading holds in memory before it is stored, in bytes, over all shards.
	LoadBudget int

	Now   func() time.Time // wall clock, for the time of messages; nil: time.Now
	Clock membership.Clock // for the lease; nil: membership.BootClock
	Log   *slog.Logger     // nil: none
	// Alarm hears of what a person has to look at, by kind; nil: none. It must not block.
	Alarm func(kind string)

	StoreFS vfs.FS // of the local store; nil: the operating system's. Tests fill it up and damage it
}

// defaultLoadBudget is what all shards that load may hold together. Half as much loads many rooms slower, twice as much
// loads nothing faster.
const defaultLoadBudget = 18 << 20

// Names of the topics of a home.
func messagesTopic(prefix string) string  { return prefix + ".messages" }
func directoryTopic(prefix string) string { return prefix + ".directory" }

func (c *Config) setDefaults() {
	if c.TopicPrefix == "" {
		c.TopicPrefix = "chathome"
	}
	if c.GroupID == "" {
		c.GroupID = c.TopicPrefix
	}
	if c.Shards == 0 {
		c.Shards = 12
	}
	if c.Gate == "" {
		c.Gate = PolicyInstance
	}
	if c.Timeouts == (membership.Timeouts{}) {
		c.Timeouts = membership.DefaultTimeouts()
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 10 * time.Second
	}
	if c.CommitInterval == 0 {
		c.CommitInterval = 5 * time.Second
	}
	if c.LoadBudget == 0 {
		c.LoadBudget = defaultLoadBudget
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Clock == nil {
		c.Clock = membership.BootClock
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Alarm == nil {
		c.Alarm = func(string) {}
	}
}

// instance is this process as others know it.
func (c *Config) instance() domain.Instance {
	return domain.Instance{ID: c.InstanceID, URL: c.AdvertisedURL}
}
