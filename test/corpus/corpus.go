// Package corpus gives harnesses real text to send: Debian's fortunes and Unicode's emoji where a machine has them
// (packages fortunes and unicode-data), and a small collection of its own in many scripts that is always there.
package corpus

import (
	"bufio"
	"bytes"
	_ "embed"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/chathome/chathome/domain"
)

//go:embed texts.txt
var own string

// Where Debian puts them.
const (
	fortunes = "/usr/share/games/fortunes"
	emoji    = "/usr/share/unicode/emoji/emoji-test.txt"
)

// Corpus is a collection of texts that may be sent as they are.
type Corpus struct {
	texts   []string
	emoji   []string
	sources []string
}

// Load collects what this machine has.
func Load() *Corpus { return load(fortunes, emoji) }

func load(fortunes, emoji string) *Corpus {
	c := &Corpus{sources: []string{"own texts"}}
	c.add(own)
	if names, err := filepath.Glob(filepath.Join(fortunes, "*.u8")); err == nil && len(names) > 0 {
		sort.Strings(names) // the same seed, the same texts
		for _, name := range names {
			if b, err := os.ReadFile(name); err == nil {
				c.add(string(b))
			}
		}
		c.sources = append(c.sources, "Debian's fortunes")
	}
	if b, err := os.ReadFile(emoji); err == nil {
		c.addEmoji(b)
		c.sources = append(c.sources, "Unicode's emoji")
	}
	return c
}

// add takes texts in the form of fortune: with a line "%" between them.
func (c *Corpus) add(file string) {
	for _, text := range strings.Split(file, "\n%\n") {
		text = strings.TrimRight(text, "\n")
		if sendable(text) {
			c.texts = append(c.texts, text)
		}
	}
}

// addEmoji takes the lines "1F600 ; fully-qualified # 😀 E1.0 grinning face" of emoji-test.txt.
func (c *Corpus) addEmoji(file []byte) {
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		_, comment, ok := strings.Cut(lines.Text(), "# ")
		if !ok || !strings.Contains(lines.Text(), "; fully-qualified") {
			continue
		}
		if sign, _, ok := strings.Cut(comment, " "); ok && sendable(sign) {
			c.emoji = append(c.emoji, sign)
		}
	}
}

// longest leaves room for what a harness adds to a text, below the limit of chathome.
const longest = domain.MaxTextBytes - 256

func sendable(text string) bool {
	return len(text) <= longest && domain.Draft{User: "u", ClientID: "c", Text: text}.Validate() == nil
}

// Sources says where the texts come from, for people.
func (c *Corpus) Sources() string { return strings.Join(c.sources, ", ") }

// Len is the number of texts.
func (c *Corpus) Len() int { return len(c.texts) }

// Text draws one, with an emoji at its end now and then.
func (c *Corpus) Text(r *rand.Rand) string {
	text := c.texts[r.IntN(len(c.texts))]
	if len(c.emoji) > 0 && r.IntN(3) == 0 {
		if with := text + " " + c.emoji[r.IntN(len(c.emoji))]; sendable(with) {
			return with
		}
	}
	return text
}
