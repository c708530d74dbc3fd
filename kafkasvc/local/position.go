package local

import (
	"encoding/binary"
	"fmt"

	"github.com/chathome/chathome/domain"
)

// Position says how far a shard's local data go. The zero value: there are none.
//
// Positions come from Shard.Position or Fold.Position. For a new build make one with Next and Start set to
// the start of the log and everything else zero.
type Position struct {
	Next    domain.Offset // first offset that is not part of the data
	Start   domain.Offset // start of the log when the data were built
	Hash    uint64        // record.Hash of the value at Next-1, 0 if there is none
	Kinds   int           // smallest record.KnownKinds of the programs that built them
	Damaged bool          // the log held a record that did not fit

	build  uint64        // random, not 0: tells one build of the data from the next
	origin domain.Offset // Next when the build began
}

// Empty says that there are no data.
func (p Position) Empty() bool { return p.build == 0 }

// link is one commit in the chain of commits that a shard's data consist of. Pebble merges links that follow each
// other into one. Two links that do not meet mean that a commit between them is gone, which a store can otherwise
// not notice: Pebble takes a damaged MANIFEST or write-ahead log for one that ends there, and files that
// are younger than the damage may still be there.
type link struct {
	Position
	from   domain.Offset // the Next of the commit before
	broken bool
}

const (
	linkLen = 8 + 8 + 8 + 8 + 8 + 8 + 4 + 1

	flagDamaged = 1
	flagBroken  = 2
)

func (l *link) append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, l.build)
	dst = binary.BigEndian.AppendUint64(dst, uint64(l.origin))
	dst = binary.BigEndian.AppendUint64(dst, uint64(l.from))
	dst = binary.BigEndian.AppendUint64(dst, uint64(l.Next))
	dst = binary.BigEndian.AppendUint64(dst, uint64(l.Start))
	dst = binary.BigEndian.AppendUint64(dst, l.Hash)
	dst = binary.BigEndian.AppendUint32(dst, uint32(l.Kinds))
	var flags byte
	if l.Damaged {
		flags |= flagDamaged
	}
	if l.broken {
		flags |= flagBroken
	}
	return append(dst, flags)
}

// readLink never fails: what is not a link is a broken one.
func readLink(b []byte) link {
	if len(b) != linkLen || b[linkLen-1]&^(flagDamaged|flagBroken) != 0 {
		return link{broken: true}
	}
	l := link{from: domain.Offset(binary.BigEndian.Uint64(b[16:]))}
	l.build = binary.BigEndian.Uint64(b[0:])
	l.origin = domain.Offset(binary.BigEndian.Uint64(b[8:]))
	l.Next = domain.Offset(binary.BigEndian.Uint64(b[24:]))
	l.Start = domain.Offset(binary.BigEndian.Uint64(b[32:]))
	l.Hash = binary.BigEndian.Uint64(b[40:])
	l.Kinds = int(binary.BigEndian.Uint32(b[48:]))
	l.Damaged = b[52]&flagDamaged != 0
	l.broken = b[52]&flagBroken != 0
	return l
}

// join appends the next link to l. It is associative, as a merge must be.
func (l link) join(next link) link {
	if l.build != next.build || l.origin != next.origin || l.Next != next.from {
		next.broken = true
	}
	next.broken = next.broken || l.broken
	next.from = l.from
	return next
}

// readPosition is the position at the end of a whole chain.
func readPosition(value []byte) (Position, error) {
	l := readLink(value)
	if l.broken || l.build == 0 || l.from != l.origin {
		return Position{}, fmt.Errorf("%w: a commit is missing", ErrCorrupt)
	}
	return l.Position, nil
}
