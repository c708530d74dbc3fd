//go:build kafka

package kafka_test

import (
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/test/kafka"
)

// broken are settings that a home refuses or warns of, by name.
var broken = map[string]struct {
	value    string
	severity string
}{
	"cleanup.policy":                 {"compact", "refuse"},
	"retention.ms":                   {"604800000", "refuse"},
	"retention.bytes":                {"1000000000", "refuse"},
	"max.message.bytes":              {"500000", "refuse"},
	"unclean.leader.election.enable": {"true", "warn"},
	"message.timestamp.type":         {"CreateTime", "warn"},
	"min.insync.replicas":            {"2", "warn"},
}

// Every setting that can be wrong is named at once, on both topics and at the broker, with its value and with a line
// that mends it: those lines are run here, and then all is well.
func TestStartup_NamesEverySettingAndTheLineThatMendsIt(t *testing.T) {
	props := kafka.Quick()
	maps.Copy(props, kafka.Properties{"auto.create.topics.enable": "true", "group.max.session.timeout.ms": "20000"})
	c := start(t, kafka.Config{Properties: props})
	p := prefix()
	messages, directory := topics(p)
	flags := []string{"check", "--brokers=" + c.Addrs()[0], "--topic-prefix=" + p, "--shards=4"}

	// Nothing is there yet: nothing is wrong, and nothing is made.
	code, out, errOut := once(t, flags...)
	if code != 0 || !strings.Contains(out, "warn") || !strings.Contains(out, "auto.create.topics.enable is true, want false") {
		t.Errorf("an empty cluster: exit code %d\n%s%s", code, out, errOut)
	}
	if list, err := c.Admin.ListTopics(within(t, 10*time.Second)); err != nil || list.Has(messages) || list.Has(directory) {
		t.Errorf("check made topics: %v, %v", list.Names(), err)
	}

	join(t, c, p, "a").ready().end()
	if code, out, errOut = once(t, flags...); code != 0 {
		t.Errorf("topics as made by the server: exit code %d\n%s%s", code, out, errOut)
	}

	for _, topic := range []string{messages, directory} {
		for name, b := range broken {
			set(t, c, topic, name, b.value)
		}
	}
	code, out, errOut = once(t, append(flags, "--session-timeout=30s", "--replication-factor=3")...)
	if code != 1 || !strings.Contains(errOut, "forbid the start") {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	for _, topic := range []string{messages, directory} {
		for name, b := range broken {
			line := finding(out, "topic "+topic+": "+name+" is "+b.value)
			if !strings.HasPrefix(line, b.severity) {
				t.Errorf("no line %q of topic %s with its value:\n%s", b.severity, topic, out)
			}
		}
		if line := finding(out, "topic "+topic+": replication factor is 1, want 3"); !strings.HasPrefix(line, "warn") {
			t.Errorf("too few replicas of %s: %q", topic, line)
		}
	}
	if line := finding(out, "group.max.session.timeout.ms is 20000, want at least 30000"); !strings.HasPrefix(line, "refuse") {
		t.Errorf("session timeout: %q\n%s", line, out)
	}
	if _, out, _ = once(t, append(flags, "--session-timeout=3s", "--rebalance-timeout=2s")...); !strings.HasPrefix(finding(out, "group.min.session.timeout.ms is 6000, want at most 3000"), "refuse") {
		t.Errorf("short session timeout:\n%s", out)
	}

	// The server refuses with the same words, and says all of them.
	refused := refuses(t, c, p)
	for name, b := range broken {
		if b.severity == "refuse" && !strings.Contains(refused.Error(), name+" is "+b.value) {
			t.Errorf("the server does not name %s:\n%v", name, refused)
		}
	}

	for _, f := range refused.Findings {
		mend(t, c, f.Fix)
	}
	_, out, _ = once(t, flags...)
	for _, line := range fixes(out, "kafka-") {
		mend(t, c, line)
	}
	code, out, errOut = once(t, flags...)
	if code != 0 || strings.Contains(out, "topic "+p) {
		t.Errorf("after all lines were run: exit code %d\n%s%s", code, out, errOut)
	}
	join(t, c, p, "b").ready().end()

	// Partitions added while nobody looked: rooms would be looked for in the wrong place.
	if _, err := c.Admin.UpdatePartitions(within(t, 10*time.Second), 6, messages); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the partitions are there", func() error {
		if code, out, _ = once(t, flags...); code != 1 {
			return errors.New(out)
		}
		return nil
	})
	if !strings.HasPrefix(finding(out, "topic "+messages+": partitions is 6, want 4"), "refuse") {
		t.Errorf("added partitions:\n%s", out)
	}
	// However many are asked for, the directory has pinned the number.
	if _, out, _ = once(t, append(flags, "--shards=6")...); !strings.Contains(out, "partitions is 6, want 4") {
		t.Errorf("added partitions that are asked for:\n%s", out)
	}
	if err := refuses(t, c, p); !strings.Contains(err.Error(), "partitions is 6, want 4") {
		t.Errorf("added partitions: %v", err)
	}
}

// Topics that were made with one replica get three by the lines that the check prints, while an instance serves.
func TestStartup_ReplicasAreAdded(t *testing.T) {
	c := start(t, kafka.Config{Nodes: 3, Properties: kafka.Quick()})
	p := prefix()
	a := join(t, c, p, "a", func(cfg *kafkasvc.Config) { cfg.ReplicationFactor = 1 }).ready()
	w := write(t, a.create(0, "kitchen"), "bob", a)
	w.goesOn(10)
	flags := []string{"check", "--brokers=" + strings.Join(c.Addrs(), ","), "--topic-prefix=" + p, "--shards=4"}
	messages, directory := topics(p)
	_, out, _ := once(t, flags...)
	for _, topic := range []string{messages, directory} {
		if line := finding(out, "topic "+topic+": replication factor is 1, want 3"); !strings.HasPrefix(line, "warn") {
			t.Errorf("too few replicas of %s: %q", topic, line)
		}
	}
	if n := len(fixes(out, "echo ")); n != 2 {
		t.Fatalf("%d plans:\n%s", n, out)
	}
	for _, line := range fixes(out, "") { // replicas, and how many of them have to be in sync
		mend(t, c, line)
	}
	eventually(t, 60*time.Second, "the check finds nothing", func() error {
		code, out, _ := once(t, flags...)
		if code != 0 || strings.Contains(out, "topic "+p) {
			return errors.New(out)
		}
		return nil
	})
	w.goesOn(20)
	w.end()
	w.whole(a)
	if code, out, _ := once(t, append(flags, "--replication-factor=5")...); code != 0 || !strings.Contains(out, "want 5: fewer brokers may fail before messages are lost\n        to mend it: start 2 more brokers, and check again") {
		t.Errorf("more replicas than brokers: exit code %d\n%s", code, out)
	}
}

// refuses starts an instance that must not serve.
func refuses(t *testing.T, c *kafka.Cluster, prefix string) *kafkasvc.RefusedError {
	t.Helper()
	in := join(t, c, prefix, "refused")
	select {
	case <-in.done:
	case <-time.After(30 * time.Second):
		t.Fatalf("it goes on: %+v\n%s", in.Ready(), in.log)
	}
	var e *kafkasvc.RefusedError
	if !errors.As(in.err, &e) || !kafkalog.Refused(e.Findings) {
		t.Fatalf("it ended with %v", in.err)
	}
	in.err = nil
	return e
}

// finding is the line that holds the words, or "".
func finding(out, words string) string {
	for line := range strings.Lines(out) {
		if strings.Contains(line, words) {
			return line
		}
	}
	return ""
}

// fixes are the lines of a check that begin with these words.
func fixes(out, begin string) (lines []string) {
	for line := range strings.Lines(out) {
		if fix, ok := strings.CutPrefix(strings.TrimSpace(line), "to mend it: "); ok && strings.HasPrefix(fix, begin) {
			lines = append(lines, fix)
		}
	}
	return lines
}

// mend runs a line as it was printed. What it echoes into a file first is put where the tool finds it.
func mend(t *testing.T, c *kafka.Cluster, line string) {
	t.Helper()
	if echo, tool, ok := strings.Cut(line, "; "); ok {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", echo)
		cmd.Dir = t.TempDir()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s\n%v\n%s", echo, err, out)
		}
		_, file, _ := strings.Cut(echo, " > ")
		line = strings.Replace(tool, "-file "+file, "-file "+filepath.Join(cmd.Dir, file), 1)
	}
	if out, err := c.Tool(within(t, time.Minute), line); err != nil {
		t.Errorf("%s\n%v\n%s", line, err, out)
	}
}

// Nobody listens, or somebody else does: the check says so in one line a broker, and ends.
func TestStartup_CheckEndsWithoutBrokers(t *testing.T) {
	code, out, errOut := once(t, "check", "--brokers=127.0.0.1:9,127.0.0.1:10")
	_, verdict, _ := strings.Cut(errOut, "chathome: check Kafka: ")
	if code != 1 || out != "" || strings.Count(verdict, "connection refused: nothing listens there") != 2 {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	if code, _, errOut = once(t, "check"); code != 2 || !strings.Contains(errOut, "--brokers") {
		t.Errorf("exit code %d\n%s", code, errOut)
	}
}
