package kafkasvc

import (
	"bytes"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
)

// landing is what the acknowledged base offset of the latest copy of a batch says.
type landing uint8

const (
	landedWhereNamed landing = iota // all records count
	landedBehind                    // something else lies where it names: read the gap
	landedBefore                    // the log ends earlier than this owner knows: it was cut
)

func landed(b *batch, base domain.Offset) landing {
	switch {
	case base == b.base:
		return landedWhereNamed
	case base > b.base:
		return landedBehind
	}
	return landedBefore
}

// last is the record just below the next offset, as this owner knows it.
type last struct {
	next domain.Offset
	hash uint64
}

// logRecord is one record as it was read.
type logRecord struct {
	offset domain.Offset
	value  []byte
}

// gap is the judgement over the records between what the owner knew and the end of the copy that was
// acknowledged elsewhere.
type gap struct {
	cut    bool          // this is not the log the owner knows
	fenced bool          // another instance took over in here
	upTo   domain.Offset // judged records lie below it: apply them. With fenced, the offset of the takeover
	stored []bool        // by record of the batch: it counted
}

// judgeGap walks the records from known.next-1 to the end of the copy of b that was acknowledged last, in log
// order. mine tells the takeovers of this process from foreign ones.
func judgeGap(known last, b *batch, end domain.Offset, recs []logRecord, mine func(tenure uuid.UUID) bool) gap {
	g := gap{upTo: known.next, stored: make([]bool, len(b.records))}
	if len(recs) == 0 || recs[0].offset != known.next-1 || record.Hash(recs[0].value) != known.hash {
		g.cut = true // a log that was cut and grew again
		return g
	}
	var v record.View
	for _, r := range recs[1:] {
		if r.offset != g.upTo {
			g.cut = true // a hole that nothing explains
			return g
		}
		if v.Decode(r.value) == nil {
			switch {
			case v.Kind == record.KindTakeover:
				if !mine(v.Tenure) {
					g.fenced = true
					return g
				}
			case v.Counts(r.offset):
				i := int(r.offset - b.base)
				if i < 0 || i >= len(b.records) || !bytes.Equal(r.value, b.records[i].Value) {
					g.cut = true // it counts and nobody but this owner may have written it
					return g
				}
				g.stored[i] = true
			}
		}
		g.upTo = r.offset + 1
	}
	if g.upTo < end {
		g.cut = true
	}
	return g
}
