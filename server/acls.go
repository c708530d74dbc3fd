package main

import (
	"fmt"
	"strings"

	"github.com/chathome/chathome/server/config"
)

// acls prints lines for a shell: the rights that an instance needs at the brokers. test/kafka proves that they are
// enough, and that nothing works when one of them is missing.
func (p process) acls(cfg config.ACLs) error {
	add := "kafka-acls.sh --bootstrap-server " + cfg.Brokers[0] + " --add --allow-principal " + quote(cfg.Principal)
	topics := " --topic " + cfg.TopicPrefix + ".messages --topic " + cfg.TopicPrefix + ".directory"
	for _, line := range []string{
		"# The topics: to make them where they are missing, to see how they are set up, to write and to read.",
		add + " --operation Create --operation DescribeConfigs --operation Write --operation Read" + topics,
		"# The group of the instances that share the work.",
		add + " --operation Read --group " + quote(cfg.Group()),
		"# Only to have the brokers' own settings checked at the start; without it there is a warning.",
		add + " --operation DescribeConfigs --cluster",
	} {
		if _, err := fmt.Fprintln(p.out, line); err != nil {
			return fmt.Errorf("print the rights: %w", err)
		}
	}
	return nil
}

// quote makes one word for a shell of what may hold blanks, as the subject of a certificate does.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/@%+=,", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
