package local

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// A page holds the messages of a room with serials 64p+1 … 64p+64, in order, as one row. A row per message loads
// four times slower. Each commit appends entries to it:
//
//	slot     byte, (serial-1) mod 64: repeats the serial, so that a merge applied twice shows
//	time     varint, milliseconds
//	user, client id, text: each uvarint length and bytes
const pageSize = 64

func pageOf(serial domain.Serial) uint64 { return uint64(serial-1) / pageSize }

func slotOf(serial domain.Serial) byte { return byte((serial - 1) % pageSize) }

func appendEntry(dst []byte, serial domain.Serial, at domain.Millis, user, clientID, text []byte) []byte {
	dst = append(dst, slotOf(serial))
	dst = binary.AppendVarint(dst, int64(at))
	dst = append(binary.AppendUvarint(dst, uint64(len(user))), user...)
	dst = append(binary.AppendUvarint(dst, uint64(len(clientID))), clientID...)
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// entry is one message within a page: positions of its parts in the row.
type entry struct {
	serial               domain.Serial
	at                   domain.Millis
	start                int
	user, clientID, text span
}

type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to] }

// pageReader walks over the entries of a page.
type pageReader struct {
	row  []byte
	page uint64
	pos  int
	last int // slot of the entry before, -1 at first
}

func readPage(row []byte, page uint64) pageReader { return pageReader{row: row, page: page, last: -1} }

// next is false at the end. An error is ErrCorrupt.
func (r *pageReader) next(e *entry) (bool, error) {
	if r.pos == len(r.row) {
		return false, nil
	}
	e.start = r.pos
	slot := int(r.row[r.pos])
	r.pos++
	if slot <= r.last || slot >= pageSize {
		return false, fmt.Errorf("%w: page entry out of order", ErrCorrupt)
	}
	r.last = slot
	e.serial = domain.Serial(r.page*pageSize) + domain.Serial(slot) + 1
	at, n := binary.Varint(r.row[r.pos:])
	if n <= 0 {
		return false, errEntry()
	}
	e.at = domain.Millis(at)
	r.pos += n
	if !r.span(&e.user) || !r.span(&e.clientID) || !r.span(&e.text) {
		return false, errEntry()
	}
	return true, nil
}

func errEntry() error { return fmt.Errorf("%w: page entry", ErrCorrupt) }

func (r *pageReader) span(s *span) bool {
	length, n := binary.Uvarint(r.row[r.pos:])
	if n <= 0 || length > uint64(len(r.row)-r.pos-n) {
		return false
	}
	s.from = r.pos + n
	s.to = s.from + int(length)
	r.pos = s.to
	return true
}

// message makes e a message whose strings are parts of text, which is row[base:] as a string.
func (e *entry) message(room uuid.UUID, text string, base int) domain.Message {
	return domain.Message{
		Room:     room,
		Serial:   e.serial,
		User:     text[e.user.from-base : e.user.to-base],
		ClientID: text[e.clientID.from-base : e.clientID.to-base],
		Text:     text[e.text.from-base : e.text.to-base],
		SentAt:   e.at,
	}
}

// findInPage looks for the message with this serial and these ids.
func findInPage(row []byte, room uuid.UUID, serial domain.Serial, user, clientID []byte) (m domain.Message, ok bool, err error) {
	r := readPage(row, pageOf(serial))
	var e entry
	for {
		more, err := r.next(&e)
		if err != nil || !more {
			return m, false, err
		}
		if e.serial < serial {
			continue
		}
		if e.serial > serial || string(e.user.of(row)) != string(user) || string(e.clientID.of(row)) != string(clientID) {
			return m, false, nil
		}
		return e.message(room, string(row[e.start:r.pos]), e.start), true, nil
	}
}
