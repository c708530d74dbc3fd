package main

import (
	"strings"
	"testing"
)

func TestCheck_LooksAndTouchesNothing(t *testing.T) {
	broker := launch(t, "broker", "--listen=127.0.0.1:0", "--data-dir=:memory:")
	address := broker.url
	flags := []string{"check", "--brokers=" + address, "--topic-prefix=looked-at"}
	for range 2 { // the second time, too, there are no topics
		code, out, errOut := once(t, environment(), flags...)
		if code != 0 || !strings.Contains(out, "well enough to serve") {
			t.Errorf("exit code %d\n%s%s", code, out, errOut)
		}
	}
	code, out, errOut := once(t, environment("CHATHOME_BROKERS="+address, "CHATHOME_SESSION_TIMEOUT=31m"), "check")
	if code != 2 || out != "" || !strings.Contains(errOut, "--session-timeout") {
		t.Errorf("flags are those of serve: exit code %d\n%s%s", code, out, errOut)
	}
	code, _, errOut = once(t, environment(), "check")
	if code != 2 || !strings.Contains(errOut, "--brokers") {
		t.Errorf("without brokers: exit code %d\n%s", code, errOut)
	}
	code, out, errOut = once(t, environment(), "check", "--brokers=127.0.0.1:9")
	if code != 1 || out != "" || !strings.Contains(errOut, "chathome: check Kafka: broker 127.0.0.1:9: connection refused") {
		t.Errorf("nobody there: exit code %d\n%s%s", code, out, errOut)
	}
}

func TestACLs_PrintLinesForAShell(t *testing.T) {
	code, out, errOut := once(t, environment(), "acls", "--brokers=kafka:9092,other:9092", "--topic-prefix=chat", "--principal=User:CN=it's me,O=chat")
	const want = `# The topics: to make them where they are missing, to see how they are set up, to write and to read.
kafka-acls.sh --bootstrap-server kafka:9092 --add --allow-principal 'User:CN=it'\''s me,O=chat' --operation Create --operation DescribeConfigs --operation Write --operation Read --topic chat.messages --topic chat.directory
# The group of the instances that share the work.
kafka-acls.sh --bootstrap-server kafka:9092 --add --allow-principal 'User:CN=it'\''s me,O=chat' --operation Read --group chat
# Only to have the brokers' own settings checked at the start; without it there is a warning.
kafka-acls.sh --bootstrap-server kafka:9092 --add --allow-principal 'User:CN=it'\''s me,O=chat' --operation DescribeConfigs --cluster
`
	if code != 0 || out != want {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", code, out, errOut, want)
	}
	code, _, errOut = once(t, environment(), "acls", "--principal=nobody", "--topic-prefix=a b", "--brokers=x")
	if code != 2 || !strings.Contains(errOut, "4 faults") {
		t.Errorf("exit code %d\n%s", code, errOut)
	}
}
