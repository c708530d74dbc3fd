package limits

import "strings"

// Scan looks at the text alone. It reads no further than the first limit that breaks, takes no memory, and
// leaves real syntax errors to the parser. Errors are *Error.
//
// It also refuses an unpaired surrogate in a string (\ud800): the parser would store U+FFFD in its place, and
// two different texts would become one.
func (l Limits) Scan(document string) error {
	s := scanner{text: document}
	tokens, nesting := 0, 0
	for s.skipBlanks(); s.at < len(s.text); s.skipBlanks() {
		tokens++
		if over(tokens, l.Tokens) {
			return &Error{What: "tokens", Limit: l.Tokens}
		}
		switch c := s.text[s.at]; {
		case c == '{' || c == '(' || c == '[':
			s.at++
			nesting++
			if over(nesting, l.Nesting) {
				return &Error{What: "levels of brackets", Limit: l.Nesting}
			}
		case c == '}' || c == ')' || c == ']':
			s.at++
			nesting--
		case isNameByte(c):
			if n := s.name(); over(n, l.NameBytes) {
				return &Error{What: "characters in one name", Limit: l.NameBytes}
			}
		case c == '#':
			s.comment()
		case c == '"':
			if !s.str() {
				return &Error{What: "the document has an unpaired surrogate in a string; send text as valid Unicode"}
			}
		case c == '.' && strings.HasPrefix(s.text[s.at:], "..."):
			s.at += 3
		default:
			s.at++
		}
	}
	return nil
}

type scanner struct {
	text string
	at   int
}

func (s *scanner) skipBlanks() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r', ',':
			s.at++
		default:
			return
		}
	}
}

// isNameByte also holds for digits: a number is one token like a name.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= '0' && c <= '9'
}

func (s *scanner) name() int {
	start := s.at
	for s.at < len(s.text) && isNameByte(s.text[s.at]) {
		s.at++
	}
	return s.at - start
}

func (s *scanner) comment() {
	for s.at < len(s.text) && s.text[s.at] != '\n' && s.text[s.at] != '\r' {
		s.at++
	}
}

// str passes a string of either kind and reports whether its surrogates are in pairs. In a block string a
// backslash escapes nothing but the closing quotes.
func (s *scanner) str() bool {
	if strings.HasPrefix(s.text[s.at:], `"""`) {
		s.at += 3
		for s.at < len(s.text) {
			rest := s.text[s.at:]
			switch {
			case strings.HasPrefix(rest, `\"""`):
				s.at += 4
			case strings.HasPrefix(rest, `"""`):
				s.at += 3
				// Quotes beyond three belong to the text before: they end with the last three.
				for s.at < len(s.text) && s.text[s.at] == '"' {
					s.at++
				}
				return true
			default:
				s.at++
			}
		}
		return true
	}
	s.at++
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.at++
			return true
		case '\n', '\r':
			return true // not closed: the parser says so
		case '\\':
			if !s.escape() {
				return false
			}
		default:
			s.at++
		}
	}
	return true
}

func (s *scanner) escape() bool {
	r, ok := hex4(s.text[s.at:])
	if !ok {
		s.at += 2
		return true
	}
	s.at += 6
	switch {
	case r < 0xd800 || r > 0xdfff:
		return true
	case r > 0xdbff:
		return false
	}
	low, ok := hex4(s.text[s.at:])
	if !ok || low < 0xdc00 || low > 0xdfff {
		return false
	}
	s.at += 6
	return true
}

// hex4 reads \uXXXX. The braced form \u{…} cannot name a surrogate: the parser refuses that.
func hex4(s string) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for i := 2; i < 6; i++ {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
