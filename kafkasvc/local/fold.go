package local

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
)

// Verdict is what a Fold made of a record.
type Verdict uint8

const (
	Counted     Verdict = iota // part of the data now
	Takeover                   // counts, and changes no room
	Void                       // did not land where it names
	UnknownKind                // of a later version
	Rubbish                    // not a LogRecord
	Skipped                    // counts, but is there already (domain.Known); the log is damaged
	Ahead                      // part of the data, but records are missing before it (domain.Ahead); damaged
	Orphan                     // part of the data, but its room is unknown (domain.Orphan); damaged
	Repeated                   // below the position: nothing was done
	Failed                     // the store failed: Commit says why
	verdicts
)

func (v Verdict) String() string {
	return [...]string{"counted", "takeover", "void", "unknown kind", "rubbish", "skipped", "ahead", "orphan",
		"repeated", "failed"}[v]
}

// Accepted says whether a message or room became part of the data.
func (v Verdict) Accepted() bool { return v == Counted || v == Ahead || v == Orphan }

// Anomaly says that the record cannot be in a log that lost nothing that it acknowledged: raise the alarm metric.
func (v Verdict) Anomaly() bool { return v == Skipped || v == Ahead || v == Orphan }

// Tally counts verdicts.
type Tally [verdicts]uint64

// Fold applies the records of a shard's log in order and collects what they change; Commit writes it. It is the one
// place where records become local data: loading, gap reading and the owner's own writes all go through it.
//
// It is used by one goroutine (CommitBeside makes another), and it is the only writer of its shard while it is in
// use. It keeps no more than Bytes, and a bounded number of rooms between commits.
type Fold struct {
	sh    *Shard
	drops int      // of the shard when the fold began
	base  Position // committed, or about to be
	pos   Position // applied
	last  []byte   // value of the last record applied, for Position.Hash
	err   error
	tally Tally

	pending *pending
	spare   *pending   // for the time when pending is being committed
	beside  chan error // of the commit that is under way
	rooms   roomCache
	scratch []byte
}

// NewFold begins at from: a Position of this shard, or a new build where there are no data (see Position).
func (sh *Shard) NewFold(from Position) *Fold {
	if from.Empty() {
		from.origin = from.Next
		from.Kinds = record.KnownKinds
	}
	f := &Fold{sh: sh, base: from, pos: from, pending: &pending{}}
	f.pos.Kinds = min(from.Kinds, record.KnownKinds)
	f.drops, _, _ = sh.state.get()
	f.rooms.complete = from.Empty()
	return f
}

// Position is where the fold stands: the committed position and what was applied since.
func (f *Fold) Position() Position {
	p := f.pos
	if f.pos.Next != f.base.Next {
		p.Hash = record.Hash(f.last)
	}
	return p
}

// Bytes is about how much memory the fold holds until the next commit, which for a short time needs as much
// again, and twice as much beside. Commit when it exceeds your share of the budget.
func (f *Fold) Bytes() int { return f.pending.bytes() }

// Tally counts the verdicts since the fold began.
func (f *Fold) Tally() Tally { return f.tally }

// Err is not nil after the store failed. The fold is of no use then.
func (f *Fold) Err() error { return f.err }

// Apply decodes the record that lies at off into v and folds it. Offsets only grow. v is the caller's to look at
// afterwards (a takeover's tenure, say) and aliases value, which may be reused after that. v is not filled for
// Repeated and Failed.
func (f *Fold) Apply(off domain.Offset, value []byte, v *record.View) Verdict {
	verdict := f.apply(off, value, v)
	f.tally[verdict]++
	return verdict
}

func (f *Fold) apply(off domain.Offset, value []byte, v *record.View) Verdict {
	if f.err != nil {
		return Failed
	}
	if off < f.pos.Next {
		return Repeated
	}
	decodeErr := v.Decode(value)
	var verdict Verdict
	switch {
	case decodeErr != nil:
		verdict = Rubbish
	case v.Kind == record.KindUnknown:
		verdict = UnknownKind
	case !v.Counts(off):
		verdict = Void
	case v.Kind == record.KindTakeover:
		verdict = Takeover
	case v.Kind == record.KindChatRoomCreated:
		verdict = f.addRoom(v)
	default:
		verdict = f.addMessage(off, v)
	}
	if f.err != nil {
		return Failed
	}
	if verdict.Anomaly() {
		f.pos.Damaged = true
	}
	f.pos.Next = off + 1
	f.last = append(f.last[:0], value...)
	return verdict
}

func (f *Fold) addRoom(v *record.View) Verdict {
	r, ok := f.room(&v.Room)
	if ok {
		return Skipped
	}
	if f.err == nil {
		f.newRoom(r, v, v.Name)
	}
	return Counted
}

// newRoom makes r the room of v.
func (f *Fold) newRoom(r *cachedRoom, v *record.View, name []byte) {
	r.exists = true
	r.lastAt = v.Time
	f.pending.addName(v.Room, name, v.Time)
	f.pending.touch(r)
}

func (f *Fold) addMessage(off domain.Offset, v *record.View) Verdict {
	r, ok := f.room(&v.Room)
	if f.err != nil {
		return Failed
	}
	verdict := Counted
	if !ok {
		f.newRoom(r, v, nil)
		verdict = Orphan
	} else {
		switch domain.FitOf(r.last, v.Serial) {
		case domain.Known:
			return Skipped
		case domain.Ahead:
			verdict = Ahead
		}
	}
	var hash uint64
	hash, f.scratch = f.hash(v)
	// Serials are dense, so a writer that did not see a message collides on its serial first: a client id can occur
	// twice only after another misfit in this shard. A healthy log is loaded without looking anything up.
	if ok && (f.pos.Damaged || verdict != Counted) && f.has(r, v, hash) {
		return Skipped
	}
	f.pending.touch(r)
	f.pending.addMessage(r, v)
	f.pending.addIndex(bucketOf(levelOf(off), hash), fingerprint(hash), v.Serial)
	if r.first == 0 {
		r.first = v.Serial
	} else if v.Serial != r.last+1 {
		r.sparse = true
	}
	r.last = v.Serial
	r.lastAt = max(r.lastAt, v.Time)
	return verdict
}

func (f *Fold) hash(v *record.View) (uint64, []byte) {
	return f.rooms.secret.hash(f.scratch, &v.Room, v.User, v.ClientID)
}

// room finds the state of a room, or a place for it. With ok false and f.err nil there is no such room.
func (f *Fold) room(id *uuid.UUID) (r *cachedRoom, ok bool) {
	if r := f.rooms.find(id); r != nil {
		return r, r.exists
	}
	if f.rooms.complete && f.rooms.hasSecret {
		return f.rooms.add(id), false
	}
	db, release, err := f.sh.store.use(f.sh.epoch)
	if err != nil {
		f.err = err
		return nil, false
	}
	defer release()
	f.rooms.secret, f.rooms.hasSecret = db.secret, true
	state, ok, err := f.sh.room(db, id)
	if err != nil {
		f.err = fmt.Errorf("read a room of shard %d: %w", f.sh.id, err)
		return nil, false
	}
	if f.rooms.full() && f.pending.empty() && f.beside == nil {
		f.rooms.clear()
	}
	r = f.rooms.add(id)
	r.exists, r.roomState = ok, state
	return r, ok
}

// has says whether the room has a message with v's user and client id, stored or pending.
func (f *Fold) has(r *cachedRoom, v *record.View, hash uint64) bool {
	if f.pending.has(r, v, hash) {
		return true
	}
	if f.Wait() != nil { // for what is neither pending nor stored yet
		return false
	}
	db, release, err := f.sh.store.use(f.sh.epoch)
	if err != nil {
		f.err = err
		return false
	}
	defer release()
	_, ok, err := f.sh.find(db, &v.Room, hash, v.User, v.ClientID)
	if err != nil {
		f.err = fmt.Errorf("look a message up in shard %d: %w", f.sh.id, err)
	}
	return ok
}
