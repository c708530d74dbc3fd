package kafka

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// Tool runs a line that names one of Kafka's tools, such as `kafka-configs.sh --bootstrap-server …`, by its class:
// the scripts are not among the jars.
func (c *Cluster) Tool(ctx context.Context, line string) (output string, err error) {
	words, err := split(line)
	if err != nil {
		return "", err
	}
	class, ok := c.class(words[0])
	if !ok {
		return "", fmt.Errorf("no tool of Kafka: %q", line)
	}
	args := append(c.jvm("-Xmx256m", "-Xms32m", "error"), class)
	cmd := exec.CommandContext(ctx, "java", append(args, words[1:]...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", words[0], err, out)
	}
	return string(out), err
}

func (c *Cluster) class(script string) (string, bool) {
	const tools = "org.apache.kafka.tools."
	switch script {
	case "kafka-configs.sh":
		if c.cfg.Version.before(4, 4) {
			return "kafka.admin.ConfigCommand", true
		}
		return tools + "ConfigCommand", true
	case "kafka-acls.sh":
		if c.cfg.Version.before(4, 0) {
			return "kafka.admin.AclCommand", true
		}
		return tools + "AclCommand", true
	case "kafka-topics.sh":
		return tools + "TopicCommand", true
	case "kafka-reassign-partitions.sh":
		return tools + "reassign.ReassignPartitionsCommand", true
	case "kafka-delete-records.sh":
		return tools + "DeleteRecordsCommand", true
	case "kafka-consumer-groups.sh":
		return tools + "consumer.group.ConsumerGroupCommand", true
	}
	return "", false
}

// split takes a line of shell apart: words, single quotes, and backslashes outside of them.
func split(line string) (words []string, err error) {
	var word strings.Builder
	quoted, open, escaped := false, false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && !quoted:
			escaped, open = true, true
		case r == '\'':
			quoted, open = !quoted, true
		case r == ' ' && !quoted:
			if open {
				words = append(words, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if open {
		words = append(words, word.String())
	}
	if quoted || len(words) == 0 {
		return nil, fmt.Errorf("not a line of shell: %q", line)
	}
	return words, nil
}
