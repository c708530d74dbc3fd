//go:build kafka

package kafka_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chathome/chathome/test/kafka"
)

// content is an export but for its first line, which names the home and its offsets, in an order that does not depend
// on the shards.
func content(file string) []string {
	_, rest, _ := strings.Cut(file, "\n")
	lines := strings.Split(rest, "\n")
	slices.Sort(lines)
	return lines
}

// From the embedded broker to Kafka, from there to another home with more shards, and a backup back into an empty one:
// all of them export the same.
func TestTransfer_FromTheEmbeddedBrokerToKafkaAndOn(t *testing.T) {
	c := start(t, kafka.Config{Version: kafka.Versions()[len(kafka.Versions())-1], Properties: kafka.Quick()})
	dir := t.TempDir()
	s := serve(t, "--data-dir="+filepath.Join(dir, "embedded"), "--shards=3")
	for range 5 {
		s.ready() // makes a room and sends a message
	}
	s.end()
	run := func(args ...string) string {
		t.Helper()
		code, out, errOut := once(t, args...)
		if code != 0 {
			t.Fatalf("%v: %d\n%s%s", args, code, out, errOut)
		}
		return out
	}
	first := run("export", "--data-dir="+filepath.Join(dir, "embedded"))
	if n := strings.Count(first, `{"message"`); n != 5 {
		t.Fatalf("%d messages:\n%s", n, first)
	}
	from, source := filepath.Join(dir, "0.jsonl"), "--data-dir="+filepath.Join(dir, "embedded")
	run("export", source, "--file="+from)
	for i, shards := range []int{3, 8, 1} {
		home := []string{"--brokers=" + strings.Join(c.Addrs(), ","), "--topic-prefix=" + prefix(), fmt.Sprint("--shards=", shards)}
		for range 2 {
			run(append([]string{"import", "--file=" + from}, home...)...)
		}
		if again := run(append([]string{"export"}, home...)...); !slices.Equal(content(again), content(first)) {
			t.Errorf("%d shards: the export differs:\n%s\n%s", shards, first, again)
		}
		from = filepath.Join(dir, fmt.Sprint(i+1, ".jsonl"))
		run(append([]string{"export", "--file=" + from}, home...)...)
		served := serve(t, home...)
		served.ready()
		if got := served.ask(`{ chatRooms { edges { node { name messages { edges { node { text serial } } } } } } }`); strings.Count(got, `"text":"hi","serial":"1"`) != 6 {
			t.Errorf("%d shards: it serves %s", shards, got)
		}
		served.end()
	}
}
