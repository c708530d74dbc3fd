package limits

import "strings"

// Scan looks at the text alone and counts its tokens. It reads no further than the first limit that breaks, takes no memory, and
// leaves real syntax errors to the parser. Errors are *Error.
func (l Limits) Scan(document string) (tokens int, err error) {
	s := scanner{text: document}
	nesting := 0
	for s.skipBlanks(); s.at < len(s.text); s.skipBlanks() {
		tokens++
		if over(tokens, l.Tokens) {
			return tokens, &Error{What: "tokens", Limit: l.Tokens}
		}
		switch c := s.text[s.at]; {
		case c == '{' || c == '(' || c == '[':
			s.at++
			nesting++
			if over(nesting, l.Nesting) {
				return tokens, &Error{What: "levels of brackets", Limit: l.Nesting}
			}
		case c == '}' || c == ')' || c == ']':
			s.at++
			nesting--
		case isNameByte(c):
			if n := s.name(); over(n, l.NameBytes) {
				return tokens, &Error{What: "characters in one name", Limit: l.NameBytes}
			}
		case c == '#':
			s.comment()
		case c == '"':
			s.str()
		case c == '.' && strings.HasPrefix(s.text[s.at:], "..."):
			s.at += 3
		default:
			s.at++
		}
	}
	return tokens, nil
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

// str passes a string of either kind. In a block string a backslash escapes nothing but the closing quotes.
func (s *scanner) str() {
	if strings.HasPrefix(s.text[s.at:], `"""`) {
		s.at += 3
		s.blockString()
		return
	}
	s.at++
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.at++
			return
		case '\n', '\r':
			return // not closed: the parser says so
		case '\\':
			s.at += 2
		default:
			s.at++
		}
	}
}

func (s *scanner) blockString() {
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
			return
		default:
			s.at++
		}
	}
}
