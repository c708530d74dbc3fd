package kafka

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Properties are settings of a broker.
type Properties map[string]string

// String is the file's form, in order of name.
func (p Properties) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", name, p[name])
	}
	return b.String()
}

// Quick are settings that make a cluster notice faults within seconds. A stock broker takes longer.
func Quick() Properties {
	return Properties{
		"broker.session.timeout.ms":                 "2000",
		"broker.heartbeat.interval.ms":              "400",
		"controller.quorum.fetch.timeout.ms":        "1000",
		"controller.quorum.election.timeout.ms":     "500",
		"controller.quorum.election.backoff.max.ms": "500",
		"replica.lag.time.max.ms":                   "3000",
		"group.initial.rebalance.delay.ms":          "0",
	}
}

// properties are those of one node; what the configuration adds wins.
func (c *Cluster) properties(n *Node) Properties {
	nodes := len(c.nodes)
	var voters []string
	for _, m := range c.nodes {
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", m.ID, m.controllerPort))
	}
	inSync := 1
	if nodes >= 3 {
		inSync = 2
	}
	replicas, least := fmt.Sprint(nodes), fmt.Sprint(inSync)
	p := Properties{
		"process.roles":                            "broker,controller",
		"node.id":                                  fmt.Sprint(n.ID),
		"controller.quorum.voters":                 strings.Join(voters, ","),
		"listeners":                                fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", n.port, n.controllerPort),
		"advertised.listeners":                     fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", n.port),
		"controller.listener.names":                "CONTROLLER",
		"inter.broker.listener.name":               "PLAINTEXT",
		"listener.security.protocol.map":           "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:" + c.secureProtocol(),
		"log.dirs":                                 n.dataDir(),
		"num.partitions":                           "1",
		"default.replication.factor":               replicas,
		"min.insync.replicas":                      least,
		"offsets.topic.num.partitions":             "5",
		"offsets.topic.replication.factor":         replicas,
		"transaction.state.log.num.partitions":     "2",
		"transaction.state.log.replication.factor": replicas,
		"transaction.state.log.min.isr":            least,
		"auto.create.topics.enable":                "false",
		"log.cleaner.dedupe.buffer.size":           "2097152",
		"log.cleaner.threads":                      "1",
	}
	if !c.cfg.Version.before(4, 1) {
		p["share.coordinator.state.topic.replication.factor"] = replicas
		p["share.coordinator.state.topic.min.isr"] = least
	}
	if c.cfg.Secure != nil {
		p["listeners"] += fmt.Sprintf(",SECURE://127.0.0.1:%d", n.securePort)
		p["advertised.listeners"] += fmt.Sprintf(",SECURE://127.0.0.1:%d", n.securePort)
		maps.Copy(p, c.cfg.Secure.properties())
	}
	maps.Copy(p, c.cfg.Properties)
	return p
}

func (c *Cluster) secureProtocol() string {
	switch s := c.cfg.Secure; {
	case s == nil, s.TLS == nil:
		return "SASL_PLAINTEXT"
	case !s.sasl():
		return "SSL"
	}
	return "SASL_SSL"
}
