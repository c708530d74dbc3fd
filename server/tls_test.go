package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// certify writes a certificate for loopback with a serial number, and its key.
func certify(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// The program serves all ways in by HTTPS, and goes over to a renewed certificate while streams and sockets live.
func TestProgram_ServesHTTPSAndTakesARenewedCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certify(t, cert, key, 1)
	s := launch(t, "serve", "--listen=127.0.0.1:0", "--data-dir=:memory:", "--tls-cert="+cert, "--tls-key="+key)
	address := strings.TrimSuffix(strings.TrimPrefix(s.url, "https://"), "/")
	if !strings.HasPrefix(s.url, "https://") {
		t.Fatalf("GraphiQL is at %s", s.url)
	}
	client := func(http2 bool) *http.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: http2}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	two := client(true)
	s.await("ready", func() (bool, string) {
		answer, err := two.Get(s.url + "readyz")
		if err != nil {
			return false, err.Error()
		}
		defer answer.Body.Close()
		return answer.StatusCode == http.StatusOK && answer.ProtoMajor == 2, answer.Status + answer.Proto
	})
	answer, err := two.Post(s.url+"graphql", "application/json", strings.NewReader(`{"query":"{instance{url}}"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if b, _ := io.ReadAll(answer.Body); !strings.Contains(string(b), `"url":"https://`+address+`"`) {
		t.Errorf("advertised: %s", b)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	stream := func(c *http.Client, proto int) io.Reader {
		t.Helper()
		r, _ := http.NewRequestWithContext(ctx, "GET", s.url+"graphql?query=subscription{shards{number}}", nil)
		r.Header.Set("Accept", "text/event-stream")
		answer, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		b := make([]byte, 1)
		if _, err := answer.Body.Read(b); err != nil || answer.ProtoMajor != proto || answer.StatusCode != 200 {
			t.Fatalf("a stream over %s: %s, %v", answer.Proto, answer.Status, err)
		}
		return answer.Body
	}
	bodies := []io.Reader{stream(client(true), 2), stream(client(false), 1)}
	socket, _, err := websocket.Dial(ctx, "wss://"+address+"/graphql", &websocket.DialOptions{
		HTTPClient: client(false), Subprotocols: []string{"graphql-transport-ws"}, HTTPHeader: http.Header{"Origin": {"https://" + address}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.CloseNow() }()
	tell := func(m string) string {
		t.Helper()
		if err := socket.Write(ctx, websocket.MessageText, []byte(m)); err != nil {
			t.Fatal(err)
		}
		_, b, err := socket.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := tell(`{"type":"connection_init"}`); got != `{"type":"connection_ack"}` {
		t.Errorf("got %s", got)
	}

	serial := func() int64 {
		t.Helper()
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if n := serial(); n != 1 {
		t.Errorf("served certificate %d", n)
	}
	certify(t, cert, key, 2)
	s.await("the renewed certificate", func() (bool, string) { return serial() == 2, "the old one" })
	if got := tell(`{"type":"ping"}`); got != `{"type":"pong"}` {
		t.Errorf("the socket after the renewal: %s", got)
	}
	if code, took := s.end(syscall.SIGTERM); code != 0 || took > 3*time.Second {
		t.Errorf("ended with %d after %s", code, took)
	}
	for _, b := range bodies {
		rest, err := io.ReadAll(b)
		if !strings.Contains(string(rest), "event: next") {
			t.Errorf("a stream got %q, %v", rest, err)
		}
	}
}
