package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chathome/chathome/server/config"
)

// Each connection uses what the files hold now, or what they held last while they cannot be used.
func TestCredentials_FollowTheirFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first secret\n")
	cfg := config.Defaults()
	cfg.Brokers = []string{"localhost:9092"}
	cfg.KafkaSASL, cfg.KafkaUser, cfg.KafkaPasswordFile = config.SASLPlain, "chat", file
	secrets, err := cfg.ReadSecrets()
	if err != nil {
		t.Fatal(err)
	}
	var log logBuffer
	k, err := openKafka(cfg, secrets, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if k.tls != nil || k.sasl.Name() != "PLAIN" {
		t.Errorf("TLS %v, SASL %s", k.tls != nil, k.sasl.Name())
	}
	offered := func() string {
		t.Helper()
		_, first, err := k.sasl.Start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return string(first)
	}
	for _, step := range []struct{ content, want string }{
		{"first secret\n", "\x00chat\x00first secret"},
		{"second secret\n", "\x00chat\x00second secret"},
		{"", "\x00chat\x00second secret"}, // being written
		{"two\nlines\n", "\x00chat\x00second secret"},
		{"third secret", "\x00chat\x00third secret"},
	} {
		write(step.content)
		for range 3 {
			if got := offered(); got != step.want {
				t.Errorf("file %q: %q, want %q", step.content, got, step.want)
			}
		}
	}
	if n := strings.Count(log.String(), "cannot be used; going on with what they held before"); n != 2 {
		t.Errorf("%d lines of two faults:\n%s", n, log.String())
	}
	if strings.Contains(log.String(), "secret") || !strings.Contains(log.String(), "can be used again") {
		t.Errorf("log:\n%s", log.String())
	}
}
