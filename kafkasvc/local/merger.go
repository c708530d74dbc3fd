package local

import (
	"io"

	"github.com/cockroachdb/pebble/v2"
)

// merger grows pages and index buckets by concatenation and joins the links of chains. It never fails: Pebble would
// repeat a compaction that fails for ever. What does not fit shows when it is read.
//
// The name is stored in the database, and one with another name is rebuilt: raise it with what merging means.
var merger = &pebble.Merger{
	Name: "chathome.1",
	Merge: func(key, value []byte) (pebble.ValueMerger, error) {
		if isChain(key) {
			return &chainMerger{readLink(value)}, nil
		}
		m := &listMerger{}
		return m, m.MergeNewer(value)
	},
}

type chainMerger struct{ link }

func (m *chainMerger) MergeNewer(value []byte) error {
	m.link = m.link.join(readLink(value))
	return nil
}

func (m *chainMerger) MergeOlder(value []byte) error {
	m.link = readLink(value).join(m.link)
	return nil
}

func (m *chainMerger) Finish(bool) ([]byte, io.Closer, error) {
	return m.link.append(make([]byte, 0, linkLen)), nil, nil
}

// listMerger concatenates in order of age. Reads merge from the newest operand to the oldest, so room is kept in
// front too: Pebble's own merger copies the whole value for each operand.
type listMerger struct {
	buf      []byte
	from, to int // the value is buf[from:to]
}

func (m *listMerger) MergeNewer(value []byte) error {
	if len(m.buf)-m.to < len(value) {
		m.grow(0, len(value))
	}
	m.to += copy(m.buf[m.to:], value)
	return nil
}

func (m *listMerger) MergeOlder(value []byte) error {
	if m.from < len(value) {
		m.grow(len(value), 0)
	}
	m.from -= len(value)
	copy(m.buf[m.from:], value)
	return nil
}

// grow doubles the room on the side where more is needed.
func (m *listMerger) grow(front, back int) {
	old := m.buf[m.from:m.to]
	if front > 0 {
		front += 2*len(old) + 256
	}
	if back > 0 {
		back += len(old)
	}
	m.buf = make([]byte, front+len(old)+back)
	copy(m.buf[front:], old)
	m.from, m.to = front, front+len(old)
}

func (m *listMerger) Finish(bool) ([]byte, io.Closer, error) {
	return m.buf[m.from:m.to:m.to], nil, nil
}
