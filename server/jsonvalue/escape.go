package jsonvalue

import (
	"unicode/utf16"
	"unicode/utf8"
)

// escaped reads on in a string that began at start and has a backslash here.
func (r *Reader) escaped(start int) ([]byte, error) {
	to := append(r.buffer[:0], r.text[start:r.at]...)
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			r.buffer = to
			return to, nil
		case c < ' ':
			return nil, r.fault()
		case c != '\\':
			to = append(to, c)
			r.at++
		default:
			var err error
			if to, err = r.escape(to); err != nil {
				return nil, err
			}
		}
	}
	return nil, r.fault()
}

// escape appends what the escape that begins here means.
func (r *Reader) escape(to []byte) ([]byte, error) {
	r.at++
	if r.at == len(r.text) {
		return nil, r.fault()
	}
	c := r.text[r.at]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r.at++
		return r.character(to)
	default:
		return nil, r.fault()
	}
	r.at++
	return append(to, c), nil
}

// character appends the character whose four digits begin here, with its second half where it has one.
func (r *Reader) character(to []byte) ([]byte, error) {
	c, err := r.four()
	if err != nil {
		return nil, err
	}
	if utf16.IsSurrogate(c) {
		before := r.at
		if !r.opensEscape() {
			return utf8.AppendRune(to, utf8.RuneError), nil
		}
		r.at += 2
		low, err := r.four()
		if err != nil {
			return nil, err
		}
		if c = utf16.DecodeRune(c, low); c == utf8.RuneError {
			r.at = before // the next may be a character of its own
		}
	}
	return utf8.AppendRune(to, c), nil
}

func (r *Reader) opensEscape() bool {
	return r.at+1 < len(r.text) && r.text[r.at] == '\\' && r.text[r.at+1] == 'u'
}

// four reads four hexadecimal digits.
func (r *Reader) four() (rune, error) {
	var n rune
	for range 4 {
		if r.at == len(r.text) {
			return 0, r.fault()
		}
		switch c := r.text[r.at]; {
		case c >= '0' && c <= '9':
			n = n<<4 | rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			n = n<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, r.fault()
		}
		r.at++
	}
	return n, nil
}
