package jsonvalue

import "encoding/json"

// Raw passes the value that comes next and gives its text, which is a part of the whole one. A part that is read later
// has been read as strictly before.
func (r *Reader) Raw() (json.RawMessage, error) {
	r.Kind()
	start := r.at
	err := r.pass()
	return json.RawMessage(r.text[start:r.at]), err
}

// pass is Value without the value.
func (r *Reader) pass() error {
	switch r.Kind() {
	case '{':
		return r.Object(func([]byte) error { return r.pass() })
	case '[':
		return r.elements(r.pass)
	case '"':
		_, err := r.str()
		return err
	}
	_, err := r.Value()
	return err
}
