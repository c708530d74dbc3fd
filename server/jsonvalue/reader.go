// Package jsonvalue reads the JSON of strangers (RFC 8259) in one pass, into the values that GraphQL's variables are made
// of. It is as strict as encoding/json and a good deal cheaper, as there is nothing to reflect on: a request is read on the
// way of every message.
//
// Text must have passed graph.CheckJSONText. What does not is read too, with U+FFFD where it is broken.
package jsonvalue

import (
	"encoding/json"
	"fmt"
)

// MaxDepth is how many objects and lists may be within each other: each level costs stack, and a stack that grew is memory
// that a client holds. The input types of a schema have a few.
const MaxDepth = 100

// Error says where a text is not JSON. It holds nothing of the text.
type Error struct {
	Offset int // of the first byte that does not fit; the length of the text where it ends too early
	kind   errorKind
}

type errorKind int

const (
	badByte errorKind = iota
	tooShort
	tooDeep
)

func (e *Error) Error() string {
	switch e.kind {
	case tooShort:
		return "not valid JSON: it ends too early"
	case tooDeep:
		return fmt.Sprintf("nested more than %d levels deep", MaxDepth)
	}
	return fmt.Sprintf("not valid JSON: error at byte %d", e.Offset+1)
}

// Reader goes through one JSON text. After an error it is of no use.
type Reader struct {
	text   []byte
	at     int
	depth  int
	buffer []byte // the last string that had escapes
}

// NewReader stands at the start of text.
func NewReader(text []byte) Reader { return Reader{text: text} }

// Kind passes blanks and tells what comes next by its first byte: '{', '[', '"', 't', 'f', 'n', '-' or a digit. 0 is the end
// of the text; anything else is no value.
func (r *Reader) Kind() byte {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return c
		}
	}
	return 0
}

// End reports whether nothing but blanks is left.
func (r *Reader) End() bool { return r.Kind() == 0 && r.at == len(r.text) }

// Value reads the value that comes next: map[string]any, []any, string, json.Number, bool or nil. Of a name that an object
// has twice, the last counts.
func (r *Reader) Value() (any, error) {
	switch c := r.Kind(); {
	case c == '{':
		return r.Map()
	case c == '[':
		return r.list()
	case c == '"':
		return r.String()
	case c == '-' || c >= '0' && c <= '9':
		return r.number()
	case c == 't':
		return true, r.word("true")
	case c == 'f':
		return false, r.word("false")
	case c == 'n':
		return nil, r.Null()
	}
	return nil, r.fault()
}

// Map reads an object.
func (r *Reader) Map() (map[string]any, error) {
	m := make(map[string]any)
	err := r.Object(func(name []byte) error {
		key := string(name)
		v, err := r.Value()
		m[key] = v
		return err
	})
	return m, err
}

// Object reads an object and calls member for each of its names. member reads the value; until then name holds.
func (r *Reader) Object(member func(name []byte) error) error {
	if err := r.open('{'); err != nil {
		return err
	}
	if r.Kind() == '}' {
		return r.close()
	}
	for {
		if r.Kind() != '"' {
			return r.fault()
		}
		name, err := r.str()
		if err != nil {
			return err
		}
		if r.Kind() != ':' {
			return r.fault()
		}
		r.at++
		if err := member(name); err != nil {
			return err
		}
		switch r.Kind() {
		case ',':
			r.at++
		case '}':
			return r.close()
		default:
			return r.fault()
		}
	}
}

func (r *Reader) list() ([]any, error) {
	list := []any{}
	err := r.elements(func() error {
		v, err := r.Value()
		list = append(list, v)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// elements reads a list and calls element, which reads it, for each of its values.
func (r *Reader) elements(element func() error) error {
	if err := r.open('['); err != nil {
		return err
	}
	if r.Kind() == ']' {
		return r.close()
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch r.Kind() {
		case ',':
			r.at++
		case ']':
			return r.close()
		default:
			return r.fault()
		}
	}
}

// open passes bracket.
func (r *Reader) open(bracket byte) error {
	if r.Kind() != bracket {
		return r.fault()
	}
	if r.depth++; r.depth > MaxDepth {
		return &Error{Offset: r.at, kind: tooDeep}
	}
	r.at++
	return nil
}

// close passes the bracket that Kind has seen.
func (r *Reader) close() error {
	r.depth--
	r.at++
	return nil
}

// Null reads null.
func (r *Reader) Null() error { return r.word("null") }

func (r *Reader) word(word string) error {
	for i := range len(word) {
		if r.at == len(r.text) || r.text[r.at] != word[i] {
			return r.fault()
		}
		r.at++
	}
	return nil
}

// fault is about the byte that comes next.
func (r *Reader) fault() error {
	if r.at >= len(r.text) {
		return &Error{Offset: len(r.text), kind: tooShort}
	}
	return &Error{Offset: r.at}
}

func (r *Reader) number() (json.Number, error) {
	start := r.at
	if r.text[r.at] == '-' {
		r.at++
	}
	if r.at < len(r.text) && r.text[r.at] == '0' {
		r.at++
	} else if !r.digits() {
		return "", r.fault()
	}
	if r.at < len(r.text) && r.text[r.at] == '.' {
		r.at++
		if !r.digits() {
			return "", r.fault()
		}
	}
	if r.at < len(r.text) && r.text[r.at]|0x20 == 'e' {
		r.at++
		if r.at < len(r.text) && (r.text[r.at] == '+' || r.text[r.at] == '-') {
			r.at++
		}
		if !r.digits() {
			return "", r.fault()
		}
	}
	return json.Number(r.text[start:r.at]), nil
}

// digits passes at least one digit.
func (r *Reader) digits() bool {
	start := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	return r.at > start
}

// String reads a string.
func (r *Reader) String() (string, error) {
	if r.Kind() != '"' {
		return "", r.fault()
	}
	s, err := r.str()
	return string(s), err
}

// str reads a string. It holds until the next one is read.
func (r *Reader) str() ([]byte, error) {
	r.at++
	start := r.at
	for r.at < len(r.text) {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.text[start : r.at-1], nil
		case c == '\\':
			return r.escaped(start)
		case c < ' ':
			return nil, r.fault()
		default:
			r.at++
		}
	}
	return nil, r.fault()
}
