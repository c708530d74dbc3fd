package config

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
)

// Secrets are what the configuration's files hold.
type Secrets struct {
	TLS      *tls.Config // nil without --kafka-tls
	Password string
}

// ReadSecrets reads them again: files change while the program runs. The errors are Faults.
func (c *Config) ReadSecrets() (Secrets, error) {
	s, f := c.readSecrets()
	return s, f.orNil()
}

// readSecrets reads the files that c names. Faults name every file that cannot be used, and never a word of
// what is in them.
func (c *Config) readSecrets() (s Secrets, f Faults) {
	if c.KafkaTLS {
		s.TLS = c.readTLS(&f)
	}
	if c.TLSCert != "" && c.TLSKey != "" { // serve opens them for itself; here they are only held to be good
		if _, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
			f.add("tls-cert", "%v", err)
		}
	}
	if c.KafkaPasswordFile != "" {
		s.Password = readPassword(&f, c.KafkaPasswordFile)
	}
	return s, f
}

func (c *Config) readTLS(f *Faults) *tls.Config {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.KafkaTLSCA != "" {
		pem, err := os.ReadFile(c.KafkaTLSCA)
		if err != nil {
			f.add("kafka-tls-ca", "%v", err)
		}
		t.RootCAs = x509.NewCertPool()
		if err == nil && !t.RootCAs.AppendCertsFromPEM(pem) {
			f.add("kafka-tls-ca", "%s holds no certificate in PEM form", c.KafkaTLSCA)
		}
	}
	if c.KafkaTLSCert != "" && c.KafkaTLSKey != "" {
		pair, err := tls.LoadX509KeyPair(c.KafkaTLSCert, c.KafkaTLSKey)
		if err != nil {
			f.add("kafka-tls-cert", "%v", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t
}

func readPassword(f *Faults, file string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		f.add("kafka-password-file", "%v", err)
		return ""
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	switch {
	case password == "":
		f.add("kafka-password-file", "%s is empty", file)
	case strings.ContainsAny(password, "\r\n"):
		f.add("kafka-password-file", "%s has more than one line", file)
	}
	return password
}
