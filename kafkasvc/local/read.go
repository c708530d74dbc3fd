package local

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// Read answers a part of a room's history, as it is at one moment. Serials that are missing (see Oldest; a damaged
// log) are passed over. A room that is not there has no messages. The texts of messages of one page share memory.
func (sh *Shard) Read(room uuid.UUID, r domain.Range) (domain.Page, error) {
	db, release, err := sh.store.use(sh.epoch)
	if err != nil {
		return domain.Page{}, err
	}
	defer release()
	// The state says what is there; what is committed after it was read is not looked at.
	state, _, err := sh.room(db, &room)
	if err != nil {
		return domain.Page{}, err
	}
	w := newWindow(room, r, state)
	if w.low > w.high {
		return w.page(r)
	}
	it, err := db.NewIter(&pebble.IterOptions{
		LowerBound: appendPageKey(nil, sh.id, &room, pageOf(w.low)),
		UpperBound: appendPageKey(nil, sh.id, &room, pageOf(w.high)+1),
	})
	if err := db.check(err); err != nil {
		return domain.Page{}, err
	}
	err = w.walk(it)
	if e := db.check(it.Close()); e != nil {
		err = e // rows that make no sense may be the disk's fault
	}
	if err != nil {
		return domain.Page{}, err
	}
	return w.page(r)
}

// window collects the messages of a range.
type window struct {
	room      uuid.UUID
	state     roomState
	low, high domain.Serial // the first and last one that the range may hold
	limit     int
	maxBytes  int
	fromEnd   bool

	messages []domain.Message
	bytes    int
	full     bool
}

func newWindow(room uuid.UUID, r domain.Range, state roomState) *window {
	w := &window{
		room: room, state: state,
		low: max(r.After+1, state.first, 1), high: state.last,
		limit: max(r.Limit, 1), maxBytes: r.MaxBytes, fromEnd: r.FromEnd,
	}
	if r.Before > 0 {
		w.high = min(w.high, r.Before-1)
	}
	return w
}

// walk goes over the pages from the end where the limit counts from.
func (w *window) walk(it *pebble.Iterator) error {
	start, step := it.First, it.Next
	if w.fromEnd {
		start, step = it.Last, it.Prev
	}
	w.messages = make([]domain.Message, 0, min(w.limit, int(min(w.high-w.low, 1<<10))+1))
	for ok := start(); ok && !w.full; ok = step() {
		k := it.Key()
		if len(k) != pageKeyLen {
			return fmt.Errorf("%w: page key", ErrCorrupt)
		}
		row, err := it.ValueAndErr()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		if err := w.add(row, binary.BigEndian.Uint64(k[roomKeyLen:])); err != nil {
			return err
		}
	}
	if w.fromEnd {
		slices.Reverse(w.messages)
	}
	return nil
}

// add takes the messages of a page that are in the window. All their strings are parts of one.
func (w *window) add(row []byte, page uint64) error {
	var buf [pageSize]entry
	entries := buf[:0]
	r := readPage(row, page)
	for {
		var e entry
		ok, err := r.next(&e)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if e.serial >= w.low && e.serial <= w.high {
			entries = append(entries, e)
		}
	}
	if w.fromEnd {
		slices.Reverse(entries)
	}
	taken := 0
	for i := range entries {
		size := entries[i].text.to - entries[i].text.from
		had := len(w.messages) + taken
		if had == w.limit || had > 0 && w.maxBytes > 0 && w.bytes+size > w.maxBytes {
			w.full = true
			break
		}
		w.bytes += size
		taken++
	}
	if taken == 0 {
		return nil
	}
	entries = entries[:taken]
	from, to := entries[0].start, entries[taken-1].text.to
	if w.fromEnd {
		from, to = entries[taken-1].start, entries[0].text.to
	}
	text := string(row[from:to])
	for i := range entries {
		w.messages = append(w.messages, entries[i].message(w.room, text, from))
	}
	return nil
}

// page is the answer, checked against the room's state: a room without holes must not show one.
func (w *window) page(r domain.Range) (domain.Page, error) {
	n := len(w.messages)
	if n == 0 {
		if w.low <= w.high && !w.state.sparse {
			return domain.Page{}, fmt.Errorf("%w: messages are missing", ErrCorrupt)
		}
		return domain.Page{
			HasPrevious: w.state.first > 0 && w.state.first <= r.After,
			HasNext:     r.Before > 0 && w.state.last >= r.Before,
		}, nil
	}
	first, last := w.messages[0].Serial, w.messages[n-1].Serial
	if !w.state.sparse {
		begin, end := first == w.low, last == w.high
		if w.fromEnd {
			begin, end = end, begin
		}
		if int(last-first) != n-1 || !begin || !end && !w.full && n < w.limit {
			return domain.Page{}, fmt.Errorf("%w: messages are missing", ErrCorrupt)
		}
	}
	return domain.Page{Messages: w.messages, HasPrevious: first > w.state.first, HasNext: last < w.state.last}, nil
}
