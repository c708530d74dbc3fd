package corpus

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCorpus_OwnTextsAreAllSendable(t *testing.T) {
	c := load("nowhere", "nowhere")
	if n := strings.Count(own, "\n%\n") + 1; c.Len() != n || n < 50 {
		t.Errorf("%d of %d texts may be sent", c.Len(), n)
	}
	for range 1000 {
		if text := c.Text(rand.New(rand.NewPCG(1, 2))); !sendable(text) {
			t.Errorf("%q", text)
		}
	}
}

func TestCorpus_TakesWhatTheMachineHas(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("one.u8", "first\n%\n\x08 not allowed\n%\nsecond\nline\n%\n")
	signs := write("emoji-test.txt", "# group: Smileys\n1F600 ; fully-qualified     # \U0001F600 E1.0 grinning face\n263A ; unqualified # \u263a E0.6 smiling face\n")
	c := load(dir, signs)
	if got := c.texts[len(c.texts)-2:]; got[0] != "first" || got[1] != "second\nline" {
		t.Errorf("%q", got)
	}
	if len(c.emoji) != 1 || c.emoji[0] != "\U0001F600" || !strings.Contains(c.Sources(), "fortunes") {
		t.Errorf("%q %s", c.emoji, c.Sources())
	}
}
