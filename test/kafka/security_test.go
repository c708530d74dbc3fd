//go:build kafka

package kafka_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/chathome/chathome/test/kafka"
)

const (
	password = "correct horse 4711"
	another  = "battery staple 0815"
	wrong    = "not the password 999"
)

// secret fails the test if a password can be read anywhere.
func secret(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		for _, p := range []string{password, another, wrong, "PRIVATE KEY"} {
			if strings.Contains(text, p) {
				t.Errorf("a secret can be read:\n%s", text)
			}
		}
	}
}

// grant runs the lines that `chathome acls` prints.
func grant(t *testing.T, c *kafka.Cluster, principal, prefix string) {
	t.Helper()
	for _, line := range aclLines(t, c, principal, prefix) {
		mend(t, c, line)
	}
}

func aclLines(t *testing.T, c *kafka.Cluster, principal, prefix string) (lines []string) {
	t.Helper()
	code, out, errOut := once(t, "acls", "--brokers="+c.Addrs()[0], "--topic-prefix="+prefix, "--principal="+principal)
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 3 {
		t.Fatalf("%d lines:\n%s", len(lines), out)
	}
	return lines
}

// newUser makes a SCRAM user, or changes its password.
func newUser(t *testing.T, c *kafka.Cluster, name, password string) {
	t.Helper()
	for _, m := range []kadm.ScramMechanism{kadm.ScramSha256, kadm.ScramSha512} {
		one := []kadm.UpsertSCRAM{{User: name, Mechanism: m, Iterations: 4096, Password: password}}
		res, err := c.Admin.AlterUserSCRAMs(within(t, 10*time.Second), nil, one)
		if err == nil {
			err = res.Error()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSecurity_SASL(t *testing.T) {
	ca, stranger := newAuthority(t, "the brokers' authority"), newAuthority(t, "another authority")
	cert, key := ca.issue("broker", time.Now().Add(24*time.Hour))
	f := newFolder(t)
	c := start(t, kafka.Config{Properties: kafka.Quick(), Secure: &kafka.Secure{
		TLS:   &kafka.BrokerTLS{KeyStore: f.write("broker.pem", key, cert)},
		Plain: map[string]string{"chat": password},
		Scram: map[string]string{"chat": password},
	}})
	caFile, passwordFile := f.write("ca.pem", ca.pem), f.write("password", []byte(password+"\n"))
	flags := func(prefix, mechanism, user, passwordFile, caFile string) []string {
		return []string{"--brokers=" + c.SecureAddrs()[0], "--topic-prefix=" + prefix, "--kafka-tls", "--kafka-tls-ca=" + caFile,
			"--kafka-sasl=" + mechanism, "--kafka-user=" + user, "--kafka-password-file=" + passwordFile}
	}
	check := func(t *testing.T, flags ...string) (code int, out string) {
		t.Helper()
		code, out, errOut := once(t, append([]string{"check", "--shards=2"}, flags...)...)
		secret(t, out, errOut)
		return code, out + errOut
	}

	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run(mechanism, func(t *testing.T) {
			p := prefix()
			grant(t, c, "User:chat", p)
			s := serve(t, flags(p, mechanism, "chat", passwordFile, caFile)...).ready()
			if code, out := check(t, flags(p, mechanism, "chat", passwordFile, caFile)...); code != 0 || strings.Contains(out, "not visible") {
				t.Errorf("exit code %d\n%s", code, out)
			}
			s.end()
			if bad := s.log.with("level=ERROR"); len(bad) > 0 {
				t.Errorf("%q", bad)
			}
			secret(t, s.log.String())
		})
	}

	for _, tc := range []struct {
		name  string
		flags []string
		want  string
	}{
		{"wrong password", flags("p", "plain", "chat", f.write("wrong", []byte(wrong)), caFile), "wrong user name or password"},
		{"wrong SCRAM password", flags("p", "scram-sha-512", "chat", f.write("wrong", []byte(wrong)), caFile), "wrong user name or password"},
		{"unknown user", flags("p", "scram-sha-256", "nobody", passwordFile, caFile), "wrong user name or password"},
		{"wrong CA", flags("p", "plain", "chat", passwordFile, f.write("stranger.pem", stranger.pem)), "its certificate is signed by an unknown authority"},
		{"the system's CAs", []string{"--brokers=" + c.SecureAddrs()[0], "--kafka-tls"}, "its certificate is signed by an unknown authority"},
		{"no TLS", []string{"--brokers=" + c.SecureAddrs()[0]}, "it probably expects TLS on this port"},
		{"no SASL", []string{"--brokers=" + c.SecureAddrs()[0], "--kafka-tls", "--kafka-tls-ca=" + caFile}, "it expects SASL on this port"},
		{"TLS where there is none", []string{"--brokers=" + c.Addrs()[0], "--kafka-tls"}, "not speak TLS on this port"},
		{"SASL where there is none", []string{"--brokers=" + c.Addrs()[0], "--kafka-sasl=scram-sha-256", "--kafka-user=chat", "--kafka-password-file=" + passwordFile}, "SASL"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if code, out := check(t, tc.flags...); code != 1 || !strings.Contains(out, tc.want) {
				t.Errorf("exit code %d\n%s", code, out)
			}
		})
	}

	t.Run("a password file that is wrong, then right, then changed with the password", func(t *testing.T) {
		p := prefix()
		newUser(t, c, "rotated", password)
		grant(t, c, "User:rotated", p)
		file := f.write("rotated", []byte(wrong))
		s := serve(t, flags(p, "scram-sha-256", "rotated", file, caFile)...)
		s.says("level=WARN", "wrong user name or password")
		s.patient()
		f.write("rotated", []byte(password))
		s.ready()
		f.write("rotated", nil) // a tool that truncates before it writes
		newUser(t, c, "rotated", another)
		reconnect(t, c)
		s.says("level=WARN", "the files for Kafka's security cannot be used; going on with what they held before", "is empty")
		f.write("rotated", []byte(another))
		s.says("level=INFO", "can be used again")
		s.ready()
		s.end()
		secret(t, s.log.String())
	})

	t.Run("an authority that is wrong, then right", func(t *testing.T) {
		p := prefix()
		grant(t, c, "User:chat", p)
		file := f.write("rotated-ca.pem", stranger.pem)
		s := serve(t, flags(p, "plain", "chat", passwordFile, file)...)
		s.says("level=WARN", "its certificate is signed by an unknown authority")
		s.patient()
		f.write("rotated-ca.pem", stranger.pem, ca.pem)
		s.ready()
	})

	t.Run("a mechanism that is switched off, then on", func(t *testing.T) {
		const setting = "listener.name.secure.sasl.enabled.mechanisms"
		offer := func(mechanisms string) {
			t.Helper()
			if err := c.Change(kafka.Properties{setting: mechanisms}); err != nil {
				t.Fatal(err)
			}
			reconnect(t, c)
		}
		offer("SCRAM-SHA-256")
		p := prefix()
		grant(t, c, "User:chat", p)
		for _, mechanism := range []string{"plain", "scram-sha-512"} {
			code, out := check(t, flags(p, mechanism, "chat", passwordFile, caFile)...)
			_, verdict, _ := strings.Cut(out, "chathome: check Kafka: ")
			if code != 1 || !strings.Contains(verdict, "it does not offer this SASL mechanism") || !strings.Contains(verdict, "it offers SCRAM-SHA-256") || strings.Count(verdict, "\n") > 1 {
				t.Errorf("%s: exit code %d\n%s", mechanism, code, out)
			}
		}
		s := serve(t, flags(p, "plain", "chat", passwordFile, caFile)...)
		s.says("level=WARN", "it does not offer this SASL mechanism", "it offers SCRAM-SHA-256")
		s.patient()
		offer("PLAIN,SCRAM-SHA-256,SCRAM-SHA-512")
		s.ready()
		secret(t, s.log.String())
	})

	// Each right is needed: without it the log says which one is missing and on what, and once it is there the
	// instance goes on by itself, or says at the start that it will not.
	rights := func(p string) map[string]*kadm.ACLBuilder {
		m, d := topics(p)
		acl := func() *kadm.ACLBuilder { return kadm.NewACLs().ResourcePatternType(kadm.ACLPatternLiteral) }
		return map[string]*kadm.ACLBuilder{
			"Create":                   acl().Topics(m, d).Operations(kadm.OpCreate),
			"DescribeConfigs":          acl().Topics(m, d).Operations(kadm.OpDescribeConfigs),
			"Write to the directory":   acl().Topics(d).Operations(kadm.OpWrite),
			"Write to the messages":    acl().Topics(m).Operations(kadm.OpWrite),
			"Read of the directory":    acl().Topics(d).Operations(kadm.OpRead),
			"Read of the messages":     acl().Topics(m).Operations(kadm.OpRead),
			"Read of the group":        acl().Groups(p).Operations(kadm.OpRead),
			"DescribeConfigs, cluster": acl().Clusters().Operations(kadm.OpDescribeConfigs),
		}
	}
	// The lines that the check prints give the right, with the user's name put in.
	mendRight := func(user, p string) {
		t.Helper()
		asked := flags(p, "scram-sha-512", user, passwordFile, caFile)
		_, out := check(t, asked...)
		lines := fixes(out, "kafka-acls.sh")
		if len(lines) == 0 {
			t.Errorf("no line to run:\n%s", out)
		}
		for _, line := range lines {
			line = strings.Replace(line, c.SecureAddrs()[0], c.Addrs()[0], 1) // as an administrator
			mend(t, c, strings.Replace(line, "User:NAME", "User:"+user, 1))
		}
		eventually(t, 20*time.Second, "the check finds nothing", func() error {
			if code, out := check(t, asked...); code != 0 || strings.Contains(out, "not visible") {
				return errors.New(out)
			}
			return nil
		})
	}
	for i, missing := range slices.Sorted(maps.Keys(rights(""))) {
		t.Run("without "+missing, func(t *testing.T) {
			p, user := prefix(), fmt.Sprint("weak", i)
			newUser(t, c, user, password)
			all := rights(p)
			add := func(right *kadm.ACLBuilder) {
				res, err := c.Admin.CreateACLs(within(t, 10*time.Second), right.Allow("User:"+user).AllowHosts())
				if err == nil && len(res) > 0 {
					err = res[0].Err
				}
				if err != nil || len(res) == 0 {
					t.Fatalf("%d rights: %v", len(res), err)
				}
			}
			for name, right := range all {
				if name != missing {
					add(right)
				}
			}
			s := serve(t, flags(p, "scram-sha-512", user, passwordFile, caFile)...)
			m, d := topics(p)
			switch missing {
			case "DescribeConfigs, cluster":
				s.ready()
				s.says("level=WARN", "broker settings", "not visible", "kafka-acls.sh", "--operation DescribeConfigs --cluster")
				mendRight(user, p)
				return
			case "DescribeConfigs":
				select {
				case <-s.done:
				case <-time.After(20 * time.Second):
					t.Fatal("it goes on")
				}
				s.says("topic "+m+": topic settings is not visible", "kafka-acls.sh", "--operation DescribeConfigs --topic "+m)
				mendRight(user, p)
				serve(t, flags(p, "scram-sha-512", user, passwordFile, caFile)...).ready()
				return
			case "Create":
				s.says("level=WARN", "lacks the right CREATE on topic "+d)
			case "Write to the directory":
				s.says("level=WARN", "lacks the right WRITE on topic "+d)
			case "Write to the messages":
				s.says("level=WARN", "lacks the right WRITE on topic "+m)
			case "Read of the directory":
				s.says("level=WARN", "lacks the right READ on topic "+d)
			case "Read of the messages":
				s.says("level=WARN", "lacks the right READ on topic "+m)
			case "Read of the group":
				s.says("level=WARN", "READ on group", p)
			}
			s.patient()
			add(all[missing])
			s.ready()
			secret(t, s.log.String())
		})
	}
}

// reconnect ends all connections to the brokers: their nodes are started again.
func reconnect(t *testing.T, c *kafka.Cluster) {
	t.Helper()
	for _, n := range c.Nodes() {
		if err := errors.Join(n.Stop(), n.Start()); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestSecurity_MutualTLS(t *testing.T) {
	tomorrow, yesterday := time.Now().Add(24*time.Hour), time.Now().Add(-time.Hour)
	ca, stranger := newAuthority(t, "the authority"), newAuthority(t, "another authority")
	f := newFolder(t)
	caFile := f.write("ca.pem", ca.pem)
	cert, key := ca.issue("broker", tomorrow)
	keyStore := f.write("broker.pem", key, cert)
	c := start(t, kafka.Config{Properties: kafka.Quick(), Secure: &kafka.Secure{
		TLS: &kafka.BrokerTLS{KeyStore: keyStore, TrustStore: caFile},
	}})
	p := prefix()
	grant(t, c, "User:CN=chat room", p)
	client := func(name string, a *authority, until time.Time) (certFile, keyFile string) {
		cert, key := a.issue("chat room", until)
		return f.write(name+".pem", cert), f.write(name+".key", key)
	}
	flags := func(certFile, keyFile string) []string {
		return []string{"--brokers=" + c.SecureAddrs()[0], "--topic-prefix=" + p, "--kafka-tls", "--kafka-tls-ca=" + caFile,
			"--kafka-tls-cert=" + certFile, "--kafka-tls-key=" + keyFile}
	}

	goodCert, goodKey := client("good", ca, tomorrow)
	code, out, errOut := once(t, append([]string{"check", "--shards=2"}, flags(goodCert, goodKey)...)...)
	if code != 0 {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	code, out, errOut = once(t, "check", "--brokers="+c.SecureAddrs()[0], "--topic-prefix="+p, "--kafka-tls", "--kafka-tls-ca="+caFile)
	if code != 1 || !strings.Contains(errOut, "it wants a certificate of ours, and none is configured") {
		t.Errorf("without a certificate: exit code %d\n%s%s", code, out, errOut)
	}
	strangeCert, strangeKey := client("strange", stranger, tomorrow)
	code, out, errOut = once(t, append([]string{"check"}, flags(strangeCert, strangeKey)...)...)
	if code != 1 || !strings.Contains(errOut, "it refuses our certificate; have it signed by an authority that the brokers trust") {
		t.Errorf("a certificate of a stranger: exit code %d\n%s%s", code, out, errOut)
	}

	// Our certificate has expired, and is renewed.
	oldCert, oldKey := client("renewed", ca, yesterday)
	s := serve(t, flags(oldCert, oldKey)...)
	s.says("level=WARN", "it refuses our certificate, which expired on")
	s.patient()
	client("renewed", ca, tomorrow)
	s.ready()

	// The broker's has expired, and is renewed.
	cert, key = ca.issue("broker", yesterday)
	f.write("broker.pem", key, cert)
	reconnect(t, c)
	s.says("level=WARN", "its certificate is not valid", "expired")
	s.patient()
	cert, key = ca.issue("broker", tomorrow)
	f.write("broker.pem", key, cert)
	reconnect(t, c)
	s.ready()
	s.end()
	secret(t, s.log.String())
}
