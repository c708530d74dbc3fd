package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chathome/chathome/server/peers"
)

const (
	maxShards           = 1000 // each open shard costs a goroutine and a connection
	maxReplication      = 100  // far above any sensible cluster
	maxTopicName        = 249  // Kafka's own limit
	maxInstanceID       = 64   // bytes
	minHeartbeat        = 20 * time.Millisecond
	maxSessionTimeout   = 30 * time.Minute // a stock broker's group.max.session.timeout.ms
	maxRebalanceTimeout = 30 * time.Minute
	minShutdownTimeout  = 2 * time.Second // drain, leave and close
	maxShutdownTimeout  = 10 * time.Minute
)

// normalise brings lists and addresses into the one form that the rest of the program uses.
func (c *Config) normalise() {
	c.Brokers = cleanList(c.Brokers)
	c.AllowedOrigins = cleanList(c.AllowedOrigins)
	c.TrustedProxies = cleanList(c.TrustedProxies)
	for i, origin := range c.AllowedOrigins {
		c.AllowedOrigins[i] = strings.ToLower(strings.TrimSuffix(origin, "/"))
	}
	c.AdvertisedURL = strings.TrimRight(c.AdvertisedURL, "/")
}

func cleanList(list []string) []string {
	var clean []string
	for _, item := range list {
		if item = strings.TrimSpace(item); item != "" && !slices.Contains(clean, item) {
			clean = append(clean, item)
		}
	}
	return clean
}

// Validate returns Faults with everything that is wrong with c, or nil.
func (c *Config) Validate() error { return c.faults().orNil() }

func (c *Config) faults() Faults {
	var f Faults
	c.checkServer(&f)
	c.checkKafka(&f)
	c.checkTimes(&f)
	c.checkSecurity(&f)
	return f
}

// Validate returns Faults with everything that is wrong with b, or nil.
func (b *Broker) Validate() error { return b.faults().orNil() }

func (b *Broker) faults() Faults {
	var f Faults
	if problem := addressProblem(b.Listen, true); problem != "" {
		f.add("listen", "%s", problem)
	} else if !Loopback(b.Listen) {
		f.add("listen", "%s is not a loopback address; the embedded broker is for one machine, use Kafka for more", b.Listen)
	}
	if strings.TrimSpace(b.DataDir) == "" {
		f.add("data-dir", "must name a directory, or %s for none", InMemory)
	}
	checkShutdown(&f, b.ShutdownTimeout)
	return f
}

func (c *Config) checkServer(f *Faults) {
	if problem := addressProblem(c.Listen, true); problem != "" {
		f.add("listen", "%s", problem)
	}
	if c.MetricsListen != "" {
		if problem := addressProblem(c.MetricsListen, true); problem != "" {
			f.add("metrics-listen", "%s", problem)
		}
		if _, port, _ := net.SplitHostPort(c.MetricsListen); c.MetricsListen == c.Listen && port != "0" {
			f.add("metrics-listen", "is the address of --listen; metrics are served apart from the API")
		}
	}
	if problem := urlProblem(c.AdvertisedURL); problem != "" {
		f.add("advertised-url", "%s", problem)
	}
	if c.InstanceID != "" && !plainName(c.InstanceID, maxInstanceID) {
		f.add("instance-id", "must be 1 to %d letters, digits, dots, hyphens or underscores", maxInstanceID)
	}
	if strings.TrimSpace(c.DataDir) == "" {
		f.add("data-dir", "must name a directory, or %s for none", InMemory)
	}
	for _, origin := range c.AllowedOrigins {
		if problem := originProblem(origin); problem != "" {
			f.add("allowed-origins", "%s", problem)
		}
	}
	for _, proxy := range c.TrustedProxies {
		if _, err := peers.ParseProxies([]string{proxy}); err != nil {
			f.add("trusted-proxies", "%v", err)
		}
	}
	switch {
	case c.TLSCert != "" && c.TLSKey == "":
		f.add("tls-key", "--tls-cert needs its key")
	case c.TLSKey != "" && c.TLSCert == "":
		f.add("tls-cert", "--tls-key needs its certificate")
	}
}

func (c *Config) checkKafka(f *Faults) {
	for _, broker := range c.Brokers {
		if problem := addressProblem(broker, false); problem != "" {
			f.add("brokers", "%s", problem)
		}
	}
	checkNames(f, c.TopicPrefix, c.Group())
	if c.Shards < 1 || c.Shards > maxShards {
		f.add("shards", "%d is not between 1 and %d", c.Shards, maxShards)
	}
	if c.ReplicationFactor < 0 || c.ReplicationFactor > maxReplication {
		f.add("replication-factor", "%d is not between 1 and %d", c.ReplicationFactor, maxReplication)
	}
	if c.Embedded() && c.ReplicationFactor > 1 {
		f.add("replication-factor", "the embedded broker keeps one copy; name your brokers with --brokers")
	}
	if c.MinInsyncReplicas < 0 || c.MinInsyncReplicas > maxReplication {
		f.add("min-insync-replicas", "%d is not between 1 and %d", c.MinInsyncReplicas, maxReplication)
	}
	if c.ReplicationFactor > 0 && c.MinInsyncReplicas > c.ReplicationFactor {
		f.add("min-insync-replicas", "%d copies can never be written when --replication-factor is %d", c.MinInsyncReplicas, c.ReplicationFactor)
	}
}

func checkNames(f *Faults, topicPrefix, group string) {
	if longest := maxTopicName - len(".directory"); !plainName(topicPrefix, longest) {
		f.add("topic-prefix", "must be 1 to %d letters, digits, dots, hyphens or underscores", longest)
	}
	if !printable(group) {
		f.add("group-id", "must be 1 to %d printable ASCII characters without blanks", maxTopicName)
	}
}

// checkTimes holds the relations that make the lease safe: an instance must know that it lost its shards
// before the group gives them to another one.
func (c *Config) checkTimes(f *Faults) {
	checkBetween(f, "heartbeat-interval", c.HeartbeatInterval, minHeartbeat, maxSessionTimeout)
	checkBetween(f, "session-timeout", c.SessionTimeout, time.Second, maxSessionTimeout)
	checkBetween(f, "rebalance-timeout", c.RebalanceTimeout, time.Second, maxRebalanceTimeout)
	checkShutdown(f, c.ShutdownTimeout)

	needed := c.HeartbeatInterval + RPCTimeout + LeaseMargin
	because := fmt.Sprintf("heartbeat interval + %s for an answer + %s for clocks = %s; raise it or lower --heartbeat-interval",
		formatDuration(RPCTimeout), formatDuration(LeaseMargin), formatDuration(needed))
	if c.SessionTimeout >= time.Second && c.SessionTimeout <= needed {
		f.add("session-timeout", "%s is not above %s", formatDuration(c.SessionTimeout), because)
	}
	if c.RebalanceTimeout >= time.Second && c.RebalanceTimeout <= needed {
		f.add("rebalance-timeout", "%s is not above %s", formatDuration(c.RebalanceTimeout), because)
	}
	if c.RebalanceTimeout >= time.Second && c.RebalanceTimeout <= DrainTime {
		f.add("rebalance-timeout", "%s is not above the %s that outstanding batches are given to end", formatDuration(c.RebalanceTimeout), formatDuration(DrainTime))
	}
}

func checkShutdown(f *Faults, d time.Duration) {
	checkBetween(f, "shutdown-timeout", d, minShutdownTimeout, maxShutdownTimeout)
}

func checkBetween(f *Faults, flag string, d, low, high time.Duration) {
	if d < low || d > high {
		f.add(flag, "%s is not between %s and %s", formatDuration(d), formatDuration(low), formatDuration(high))
	}
}

func (c *Config) checkSecurity(f *Faults) {
	for _, option := range []struct {
		flag string
		set  bool
	}{
		{"kafka-tls", c.KafkaTLS},
		{"kafka-sasl", c.KafkaSASL != SASLNone},
	} {
		if option.set && c.Embedded() {
			f.add(option.flag, "the embedded broker is reached without a network; name your brokers with --brokers")
		}
	}
	for _, file := range []struct{ flag, value string }{
		{"kafka-tls-ca", c.KafkaTLSCA}, {"kafka-tls-cert", c.KafkaTLSCert}, {"kafka-tls-key", c.KafkaTLSKey},
	} {
		if file.value != "" && !c.KafkaTLS {
			f.add(file.flag, "has no effect without --kafka-tls")
		}
	}
	if c.KafkaTLSCert != "" && c.KafkaTLSKey == "" {
		f.add("kafka-tls-key", "--kafka-tls-cert needs its key")
	}
	if c.KafkaTLSKey != "" && c.KafkaTLSCert == "" {
		f.add("kafka-tls-cert", "--kafka-tls-key needs its certificate")
	}
	if c.KafkaSASL == SASLNone {
		for _, option := range []struct{ flag, value string }{
			{"kafka-user", c.KafkaUser}, {"kafka-password-file", c.KafkaPasswordFile},
		} {
			if option.value != "" {
				f.add(option.flag, "has no effect without --kafka-sasl")
			}
		}
		return
	}
	if c.KafkaUser == "" {
		f.add("kafka-user", "--kafka-sasl=%s needs a user", c.KafkaSASL)
	}
	if c.KafkaPasswordFile == "" {
		f.add("kafka-password-file", "--kafka-sasl=%s needs a password", c.KafkaSASL)
	}
}

// Loopback says whether an address is reached from this machine alone.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func addressProblem(address string, listen bool) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Sprintf("%q is not HOST:PORT", address)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || (n == 0 && !listen) {
		return fmt.Sprintf("%q is not a port number (in %q)", port, address)
	}
	if host == "" && !listen {
		return fmt.Sprintf("%q names no host", address)
	}
	return ""
}

func urlProblem(s string) string {
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return fmt.Sprintf("%q is not a URL such as https://chat.example", s)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "must not hold a user, a query or a fragment"
	case len(s) > 255:
		return "is longer than 255 bytes"
	}
	return ""
}

func originProblem(s string) string {
	u, err := url.Parse(s)
	switch {
	case s == "*":
		return "* would let every web page that a user visits act as that user; list each origin"
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return fmt.Sprintf("%q is not an origin such as https://app.example or http://localhost:5173", s)
	case u.Path != "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Sprintf("%q must end after the host and port", s)
	case strings.Contains(u.Host, "*"):
		return fmt.Sprintf("%q has a wild card; list each origin", s)
	}
	return ""
}

// plainName: what Kafka takes as the name of a topic.
func plainName(s string, longest int) bool {
	if s == "" || len(s) > longest || s == "." || s == ".." {
		return false
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
		default:
			return false
		}
	}
	return true
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxTopicName
}
