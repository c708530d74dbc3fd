package transfer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// Format is the number of the file's format. A program reads those up to its own.
const Format = 1

// The file is lines of JSON, each an object with one field: first the export, then rooms and messages, each room before
// its messages and messages of a room in the order of their serials, and last the end. Times are milliseconds since
// 1970-01-01T00:00:00Z.
type line struct {
	Export  *Origin  `json:"export,omitempty"`
	Room    *room    `json:"room,omitempty"`
	Message *message `json:"message,omitempty"`
	End     *totals  `json:"end,omitempty"`
}

// Origin says what the file is an export of.
type Origin struct {
	Format int             `json:"format"`
	Home   uuid.UUID       `json:"home"`
	Shards int             `json:"shards"`
	Upto   []domain.Offset `json:"upto"` // by shard: what lies below is in the file, what lies there or above is not
}

type room struct {
	ID        uuid.UUID     `json:"id"`
	Name      string        `json:"name"`
	CreatedAt domain.Millis `json:"createdAt"`
}

type message struct {
	Room     uuid.UUID     `json:"room"`
	Serial   domain.Serial `json:"serial"`
	User     string        `json:"user"`
	ClientID string        `json:"clientId"`
	Text     string        `json:"text"`
	SentAt   domain.Millis `json:"sentAt"`
}

// totals are of the whole file: one that was cut short has none.
type totals struct {
	Rooms    int64 `json:"rooms"`
	Messages int64 `json:"messages"`
}

// FormatError: the file is not what Export wrote.
type FormatError struct {
	Line    int64
	Problem string
}

func (e *FormatError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Problem) }

// writer writes lines.
type writer struct {
	out    *bufio.Writer
	encode *json.Encoder
	totals totals
}

func newWriter(to io.Writer) *writer {
	out := bufio.NewWriterSize(to, 1<<20)
	w := &writer{out: out, encode: json.NewEncoder(out)}
	w.encode.SetEscapeHTML(false)
	return w
}

func (w *writer) write(l line) error {
	if err := w.encode.Encode(l); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

func (w *writer) room(info *domain.ChatRoomInfo) error {
	w.totals.Rooms++
	return w.write(line{Room: &room{ID: info.ID, Name: info.Name, CreatedAt: info.CreatedAt}})
}

func (w *writer) message(m *message) error {
	w.totals.Messages++
	return w.write(line{Message: m})
}

func (w *writer) end() error {
	if err := w.write(line{End: &w.totals}); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

// lines reads them.
type lines struct {
	in    *bufio.Reader
	line  int64
	bytes int64 // read so far
}

// maxLine bounds a line: the largest text, each byte escaped, and the rest.
const maxLine = 1 << 20

func newLines(from io.Reader) *lines { return &lines{in: bufio.NewReaderSize(from, 1<<20)} }

// next is io.EOF behind the last line. raw is valid until the next call.
func (r *lines) next() (l line, raw []byte, err error) {
	raw, err = r.in.ReadSlice('\n')
	r.line++
	r.bytes += int64(len(raw))
	switch {
	case errors.Is(err, io.EOF) && len(raw) == 0:
		return l, nil, io.EOF
	case errors.Is(err, io.EOF):
		return l, nil, r.bad("it is cut short")
	case errors.Is(err, bufio.ErrBufferFull), len(raw) > maxLine:
		return l, nil, r.bad("it is longer than any line of an export")
	case err != nil:
		return l, nil, fmt.Errorf("read the export: %w", err)
	}
	decode := json.NewDecoder(bytes.NewReader(raw))
	decode.DisallowUnknownFields()
	if err := decode.Decode(&l); err != nil {
		return l, nil, r.bad("it is not JSON of an export")
	}
	kinds := 0
	for _, there := range []bool{l.Export != nil, l.Room != nil, l.Message != nil, l.End != nil} {
		if there {
			kinds++
		}
	}
	if kinds != 1 {
		return l, nil, r.bad("it is neither a room nor a message, or both")
	}
	return l, raw, nil
}

func (r *lines) bad(problem string) error { return &FormatError{Line: r.line, Problem: problem} }
