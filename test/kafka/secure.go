package kafka

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Secure is a second listener of every broker, beside the plain one that the harness itself uses. Nobody who is
// not named as a super user may do anything over it but what ACLs allow.
type Secure struct {
	TLS   *BrokerTLS        // nil: none
	Plain map[string]string // passwords of users by SASL PLAIN
	Scram map[string]string // passwords of users by SASL SCRAM-SHA-256 and SCRAM-SHA-512
}

// BrokerTLS are the broker's files, in PEM form.
type BrokerTLS struct {
	KeyStore   string // its key (PKCS 8), then its certificate
	TrustStore string // authorities of clients; "": clients need no certificate
}

func (s *Secure) sasl() bool { return len(s.Plain)+len(s.Scram) > 0 }

func (s *Secure) properties() Properties {
	const of = "listener.name.secure."
	p := Properties{
		"authorizer.class.name":                     "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users":                               "User:ANONYMOUS", // the harness and the brokers themselves
		"connection.failed.authentication.delay.ms": "100",
	}
	var mechanisms []string
	if len(s.Plain) > 0 {
		mechanisms = append(mechanisms, "PLAIN")
		var users strings.Builder
		for _, user := range slices.Sorted(maps.Keys(s.Plain)) {
			fmt.Fprintf(&users, " user_%s=%q", user, s.Plain[user])
		}
		p[of+"plain.sasl.jaas.config"] = "org.apache.kafka.common.security.plain.PlainLoginModule required" + users.String() + ";"
	}
	if len(s.Scram) > 0 {
		for _, m := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			mechanisms = append(mechanisms, m)
			p[of+strings.ToLower(m)+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
	}
	if mechanisms != nil {
		p[of+"sasl.enabled.mechanisms"] = strings.Join(mechanisms, ",")
		p["sasl.enabled.mechanisms"] = strings.Join(mechanisms, ",")
	}
	if t := s.TLS; t != nil {
		p[of+"ssl.keystore.type"] = "PEM"
		p[of+"ssl.keystore.location"] = t.KeyStore
		if t.TrustStore != "" {
			p[of+"ssl.truststore.type"] = "PEM"
			p[of+"ssl.truststore.location"] = t.TrustStore
			p[of+"ssl.client.auth"] = "required"
		}
	}
	return p
}

// scramArguments are for the formatting of a node's disk.
func (s *Secure) scramArguments() (args []string) {
	if s == nil {
		return nil
	}
	for _, user := range slices.Sorted(maps.Keys(s.Scram)) {
		for _, m := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", m, user, s.Scram[user]))
		}
	}
	return args
}
