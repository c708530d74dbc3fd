package certificate

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pems makes a certificate with a serial number, and its key.
func pems(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
}

func write(t *testing.T, file string, content []byte, at time.Time) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, at, at); err != nil {
		t.Fatal(err)
	}
}

// TestFiles_ARenewedPairIsServedWithoutARestart goes through a renewal step by step, with a handshake after each.
func TestFiles_ARenewedPairIsServedWithoutARestart(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	began := time.Now()
	cert1, key1 := pems(t, 1)
	cert2, key2 := pems(t, 2)
	write(t, certFile, cert1, began)
	write(t, keyFile, key1, began)
	var log bytes.Buffer
	files, err := Open(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	handshake := func(after time.Duration, want int64) {
		t.Helper()
		now = now.Add(after)
		cfg := files.Config()
		cfg.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return files.current(now), nil }
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		go func() { _ = tls.Server(b, cfg).Handshake() }()
		client := tls.Client(a, &tls.Config{InsecureSkipVerify: true})
		if err := client.Handshake(); err != nil {
			t.Fatal(err)
		}
		if got := client.ConnectionState().PeerCertificates[0].SerialNumber.Int64(); got != want {
			t.Errorf("served certificate %d, want %d\n%s", got, want, &log)
		}
	}
	handshake(0, 1)
	write(t, certFile, cert2, began.Add(time.Second)) // the key does not fit it yet
	handshake(2*checkInterval, 1)
	handshake(2*checkInterval, 1)
	if n := strings.Count(log.String(), "cannot be used"); n != 1 {
		t.Errorf("told %d times:\n%s", n, &log)
	}
	write(t, keyFile, key2, began.Add(2*time.Second))
	handshake(checkInterval/2, 1) // not looked at yet
	handshake(checkInterval, 2)
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	handshake(2*checkInterval, 2)
	write(t, certFile, []byte("rubbish"), began.Add(3*time.Second))
	handshake(2*checkInterval, 2)
	write(t, certFile, cert1, began.Add(4*time.Second))
	write(t, keyFile, key1, began.Add(4*time.Second))
	handshake(2*checkInterval, 1)
	if strings.Contains(log.String(), "BEGIN") {
		t.Errorf("a file's content in the log:\n%s", &log)
	}
}

func TestOpen_SaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	cert, _ := pems(t, 1)
	_, key := pems(t, 2)
	file := func(name string, content []byte) string {
		write(t, filepath.Join(dir, name), content, time.Now())
		return filepath.Join(dir, name)
	}
	for want, pair := range map[string][2]string{
		"no such file":   {filepath.Join(dir, "none"), file("key", key)},
		"does not match": {file("cert", cert), file("key", key)},
		"failed to find": {file("rubbish", []byte("hush")), file("key", key)},
	} {
		if _, err := Open(pair[0], pair[1], slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
