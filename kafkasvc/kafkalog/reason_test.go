package kafkalog_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

func certificate(t *testing.T, host string, notAfter time.Time) (server *tls.Config, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true,
	}
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed}}}, roots
}

func must(m sasl.Mechanism, err error) sasl.Mechanism {
	if err != nil {
		panic(err)
	}
	return m
}

// Each fault of security is named in words, by Reason and by a plain Append alike; the good rows work.
func TestReason_Security(t *testing.T) {
	tomorrow := time.Now().Add(24 * time.Hour)
	server, roots := certificate(t, "127.0.0.1", tomorrow)
	other, otherRoots := certificate(t, "broker.example", tomorrow)
	old, oldRoots := certificate(t, "127.0.0.1", time.Now().Add(-time.Hour))
	strict := server.Clone() // clients show a certificate of an authority that the broker trusts
	strict.ClientAuth, strict.ClientCAs = tls.RequireAndVerifyClientCert, roots
	client := func(of *tls.Config) *tls.Config { return &tls.Config{RootCAs: roots, Certificates: of.Certificates} }
	plainUser := kfake.Superuser("PLAIN", "chat", "secret")
	scram256 := kfake.Superuser("SCRAM-SHA-256", "chat", "secret")
	scram512 := kfake.Superuser("SCRAM-SHA-512", "chat", "secret")

	tests := []struct {
		name string
		opts []kfake.Opt
		tls  *tls.Config
		sasl sasl.Mechanism
		want string // in the error's text; "": works
	}{
		{name: "nothing", want: ""},
		{name: "tls", opts: []kfake.Opt{kfake.TLS(server)}, tls: &tls.Config{RootCAs: roots}, want: ""},
		{name: "tls missing", opts: []kfake.Opt{kfake.TLS(server)}, want: "expects TLS"},
		{name: "tls unexpected", tls: &tls.Config{RootCAs: roots}, want: "not speak TLS"},
		{name: "unknown authority", opts: []kfake.Opt{kfake.TLS(server)}, tls: &tls.Config{RootCAs: otherRoots}, want: "unknown authority"},
		{name: "other host", opts: []kfake.Opt{kfake.TLS(other)}, tls: &tls.Config{RootCAs: otherRoots}, want: "another host name"},
		{name: "expired", opts: []kfake.Opt{kfake.TLS(old)}, tls: &tls.Config{RootCAs: oldRoots}, want: "not valid"},
		{name: "no certificate of ours", opts: []kfake.Opt{kfake.TLS(strict)}, tls: &tls.Config{RootCAs: roots}, want: "wants a certificate of ours, and none is configured"},
		{name: "our certificate of a stranger", opts: []kfake.Opt{kfake.TLS(strict)}, tls: client(other), want: "have it signed by an authority that the brokers trust"},
		{name: "our certificate expired", opts: []kfake.Opt{kfake.TLS(strict)}, tls: client(old), want: "refuses our certificate, which expired on"},
		{name: "plain", opts: []kfake.Opt{kfake.EnableSASL(), plainUser}, sasl: plain.Mechanism{Username: "chat", Password: "secret"}, want: ""},
		{name: "scram-256", opts: []kfake.Opt{kfake.EnableSASL(), scram256}, sasl: must(scram.Mechanism(scram.SHA256, "chat", "secret")), want: ""},
		{name: "scram-512 over tls", opts: []kfake.Opt{kfake.EnableSASL(), scram512, kfake.TLS(server)}, tls: &tls.Config{RootCAs: roots}, sasl: must(scram.Mechanism(scram.SHA512, "chat", "secret")), want: ""},
		{name: "wrong password", opts: []kfake.Opt{kfake.EnableSASL(), plainUser}, sasl: plain.Mechanism{Username: "chat", Password: "guess"}, want: "wrong user name or password"},
		{name: "wrong scram password", opts: []kfake.Opt{kfake.EnableSASL(), scram512}, sasl: must(scram.Mechanism(scram.SHA512, "chat", "guess")), want: "wrong user name or password"},
		{name: "sasl missing", opts: []kfake.Opt{kfake.EnableSASL(), plainUser}, want: "SASL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := kafkatest.StartTCP(t, append(tt.opts, kfake.SeedTopics(1, topic))...)
			var secure func() *tls.Config
			if tt.tls != nil {
				secure = func() *tls.Config { return tt.tls }
			}
			c := kafkalog.New(kafkalog.Config{Brokers: k.Addrs(), TLS: secure, SASL: tt.sasl, RPCTimeout: 500 * time.Millisecond})
			t.Cleanup(c.Close)
			_, appendErr := c.Append(within(t, 5*time.Second), topic, 0, records("a"))
			reason := c.Reason(within(t, 5*time.Second))
			if tt.want == "" {
				if reason != nil || appendErr != nil {
					t.Errorf("reason %v, append %v", reason, appendErr)
				}
				return
			}
			for what, err := range map[string]error{"reason": reason, "append": appendErr} {
				var be *kafkalog.BrokerError
				if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.As(err, &be) {
					t.Errorf("%s: %v, want %q", what, err, tt.want)
				}
				if err != nil && (strings.Contains(err.Error(), "guess") || strings.Contains(err.Error(), "secret")) {
					t.Errorf("%s tells the password: %v", what, err)
				}
			}
			if e := appendError(t, appendErr); !e.NotWritten {
				t.Error("nothing was sent, and yet it is not known to be not written")
			}
		})
	}
}

func TestReason_Network(t *testing.T) {
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := refused.Addr().String()
	refused.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, tt := range map[string]struct {
		brokers []string
		want    string
	}{
		"refused": {[]string{addr}, "connection refused"},
		"silent":  {[]string{silent.Addr().String()}, "did not answer in time"},
		"name":    {[]string{"no-such-host.invalid:9092"}, "cannot be resolved"},
		"both":    {[]string{addr, silent.Addr().String()}, "did not answer in time"},
		"none":    {nil, "no brokers"},
	} {
		c := kafkalog.New(kafkalog.Config{Brokers: tt.brokers, RPCTimeout: 100 * time.Millisecond})
		if err := c.Reason(within(t, 5*time.Second)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
		c.Close()
	}
}
