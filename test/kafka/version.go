package kafka

import (
	"fmt"
	"slices"
	"strings"
)

// Version is a release of Apache Kafka.
type Version string

// The versions that chathome is tested on: the last of the 3.x line, the first without ZooKeeper, the newest.
const (
	V3_9 Version = "3.9.1"
	V4_0 Version = "4.0.0"
	V4_4 Version = "4.4.0"
)

// Newest is what tests use that need no particular version.
const Newest = V4_4

// Versions are all of them, oldest first.
func Versions() []Version { return []Version{V3_9, V4_0, V4_4} }

// ParseVersion takes a pinned version, or its first two numbers.
func ParseVersion(s string) (Version, error) {
	all := Versions()
	i := slices.IndexFunc(all, func(v Version) bool {
		return string(v) == s || strings.HasPrefix(string(v), s+".") && strings.Contains(s, ".")
	})
	if i < 0 {
		return "", fmt.Errorf("version %q is none of the pinned ones: %v", s, all)
	}
	return all[i], nil
}

// before says whether v is older than a major and minor version.
func (v Version) before(major, minor int) bool {
	var a, b int
	if _, err := fmt.Sscanf(string(v), "%d.%d", &a, &b); err != nil {
		return false
	}
	return a < major || a == major && b < minor
}
