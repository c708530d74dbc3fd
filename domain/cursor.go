package domain

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/google/uuid"
)

// Cursor is a position in a room: behind the message with this serial; serial 0 is before the first. Home and
// hash make a position of another life of the topics recognisable.
type Cursor struct {
	Home   uuid.UUID
	Room   uuid.UUID
	Serial Serial
	Hash   uint32 // of the message at Serial, 0 for serial 0
}

// ListCursor is a position in the room list. Serial counts announcements, hash is of the room there.
type ListCursor struct {
	Home   uuid.UUID
	Serial Serial
	Hash   uint32
}

const (
	cursorRoom = 1 // first byte: kind and format
	cursorList = 2

	cursorRoomLen = 1 + 16 + 16 + 8 + 4 + 4
	cursorListLen = 1 + 16 + 8 + 4 + 4
)

var cursorEncoding = base64.RawURLEncoding.Strict()

// String is the opaque form that clients see: url-safe, without padding. Its last four bytes are a checksum:
// a cursor that was cut or mistyped is refused instead of pointing somewhere else.
func (c Cursor) String() string {
	var b [cursorRoomLen]byte
	b[0] = cursorRoom
	copy(b[1:], c.Home[:])
	copy(b[17:], c.Room[:])
	binary.BigEndian.PutUint64(b[33:], uint64(c.Serial))
	binary.BigEndian.PutUint32(b[41:], c.Hash)
	return seal(b[:])
}

// String is the opaque form that clients see.
func (c ListCursor) String() string {
	var b [cursorListLen]byte
	b[0] = cursorList
	copy(b[1:], c.Home[:])
	binary.BigEndian.PutUint64(b[17:], uint64(c.Serial))
	binary.BigEndian.PutUint32(b[25:], c.Hash)
	return seal(b[:])
}

// ParseCursor returns a *BadCursorError for anything that String did not make.
func ParseCursor(s string) (Cursor, error) {
	var buf [cursorRoomLen]byte
	if err := open(buf[:], s, cursorRoom); err != nil {
		return Cursor{}, err
	}
	c := Cursor{Serial: Serial(binary.BigEndian.Uint64(buf[33:])), Hash: binary.BigEndian.Uint32(buf[41:])}
	copy(c.Home[:], buf[1:])
	copy(c.Room[:], buf[17:])
	if c.Serial < 0 {
		return Cursor{}, &BadCursorError{Reason: "malformed"}
	}
	return c, nil
}

// ParseListCursor returns a *BadCursorError for anything that String did not make.
func ParseListCursor(s string) (ListCursor, error) {
	var buf [cursorListLen]byte
	if err := open(buf[:], s, cursorList); err != nil {
		return ListCursor{}, err
	}
	c := ListCursor{Serial: Serial(binary.BigEndian.Uint64(buf[17:])), Hash: binary.BigEndian.Uint32(buf[25:])}
	copy(c.Home[:], buf[1:])
	if c.Serial < 0 {
		return ListCursor{}, &BadCursorError{Reason: "malformed"}
	}
	return c, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// RoomHash is the hash of a room in a ListCursor.
func RoomHash(id uuid.UUID) uint32 { return crc32.Checksum(id[:], castagnoli) }

func seal(b []byte) string {
	n := len(b) - 4
	binary.BigEndian.PutUint32(b[n:], crc32.Checksum(b[:n], castagnoli))
	return cursorEncoding.EncodeToString(b)
}

func open(buf []byte, s string, kind byte) error {
	if len(s) != cursorEncoding.EncodedLen(len(buf)) {
		return &BadCursorError{Reason: "malformed"}
	}
	n, err := cursorEncoding.Decode(buf, []byte(s))
	if err != nil || n != len(buf) || buf[0] != kind {
		return &BadCursorError{Reason: "malformed"}
	}
	if binary.BigEndian.Uint32(buf[n-4:]) != crc32.Checksum(buf[:n-4], castagnoli) {
		return &BadCursorError{Reason: "malformed"}
	}
	return nil
}
