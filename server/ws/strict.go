package ws

import (
	"errors"
	"unicode/utf8"
)

var errText = errors.New("text is not valid Unicode")

// strictText refuses what encoding/json would quietly replace by U+FFFD: bytes that are no UTF-8, and
// escaped surrogates without their other half. Two different texts must not become equal.
func strictText(b []byte) error {
	if !utf8.Valid(b) {
		return errText
	}
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		i++ // whatever is escaped, it is not the start of another escape
		switch r, ok := escaped(b, i); {
		case !ok:
		case r >= 0xDC00 && r <= 0xDFFF:
			return errText
		case r >= 0xD800 && r <= 0xDBFF:
			low, ok := escaped(b, i+6)
			if !ok || b[i+5] != '\\' || low < 0xDC00 || low > 0xDFFF {
				return errText
			}
			i += 10
		}
	}
	return nil
}

// escaped reads uXXXX at i.
func escaped(b []byte, i int) (r rune, ok bool) {
	if i+5 > len(b) || b[i] != 'u' {
		return 0, false
	}
	for _, c := range b[i+1 : i+5] {
		switch {
		case c >= '0' && c <= '9':
			r = r<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
