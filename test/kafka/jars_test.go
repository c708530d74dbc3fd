package kafka

import (
	"slices"
	"testing"
)

func TestJavaVersion(t *testing.T) {
	for out, want := range map[string]int{
		"openjdk version \"17.0.15\" 2025-04-15\nOpenJDK Runtime Environment": 17,
		"java version \"1.8.0_412\"":                                          8,
		"openjdk version \"21\" 2023-09-19":                                   21,
		"Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version \"11.0.2\"":     11,
		"something else": 0,
	} {
		if have, ok := javaVersion(out); have != want || ok != (want != 0) {
			t.Errorf("%q: %d %v, want %d", out, have, ok, want)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for s, want := range map[string]Version{"3.9": V3_9, "4.0": V4_0, "4.4.0": V4_4, "4.4": V4_4, "4": "", "": "", "4.4.1": "", "5.0": ""} {
		if v, err := ParseVersion(s); v != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", s, v, err, want)
		}
	}
}

func TestSplit(t *testing.T) {
	words, err := split(`a  'b c' 'it'\''s' --d=e`)
	if err != nil || !slices.Equal(words, []string{"a", "b c", "it's", "--d=e"}) {
		t.Errorf("%q, %v", words, err)
	}
	if _, err := split("a 'b"); err == nil {
		t.Error("an open quote passes")
	}
}
