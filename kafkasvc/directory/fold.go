package directory

import (
	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// verdict is what became of a record.
type verdict uint8

const (
	changed  verdict = iota // it changed the view
	repeated                // known already: Home, a room, an owner
	outdated                // an owner entry that is not higher than the known one
	foreign                 // written for another life of the topics
	barrier                 // means nothing
	unknown                 // a kind of a newer version
	junk                    // not ours
	verdicts                // number of verdicts
)

// fold applies records in order of offset and collects what they change. It does no I/O besides asking known,
// and holds no clock: the same records give the same view on every instance.
type fold struct {
	known   func(uuid.UUID) (bool, error)           // of the committed view
	owner   func(domain.ShardID) (OwnerEntry, bool) // of the committed view
	pos     Position                                // behind the last applied record
	rooms   []domain.ListedRoom                     // new ones
	fresh   map[uuid.UUID]struct{}                  // ids of rooms
	owners  map[domain.ShardID]OwnerEntry           // new ones
	counts  [verdicts]int64
	applied int
}

func newFold(from Position, known func(uuid.UUID) (bool, error), owner func(domain.ShardID) (OwnerEntry, bool)) *fold {
	return &fold{
		known: known, owner: owner, pos: from,
		fresh: make(map[uuid.UUID]struct{}), owners: make(map[domain.ShardID]OwnerEntry),
	}
}

// apply takes the next record. On an error of known nothing has changed, and the record may come again.
func (f *fold) apply(off domain.Offset, value []byte) (verdict, error) {
	v, err := f.decide(off, decode(value))
	if err != nil {
		return 0, err
	}
	f.counts[v]++
	f.applied++
	f.pos.Next = off + 1
	f.pos.Hash = hash(value)
	return v, nil
}

func (f *fold) decide(off domain.Offset, r record) (verdict, error) {
	switch {
	case r.kind == kindJunk:
		return junk, nil
	case r.kind == kindUnknown:
		return unknown, nil
	case r.kind == kindHome:
		return repeated, nil // the first one in the log was found before the fold began
	case r.home != f.pos.Life.Home:
		return foreign, nil // its writer had not noticed yet that the topic was made anew
	case r.kind == kindBarrier:
		return barrier, nil
	case r.kind == kindRoom:
		return f.room(r.room)
	default:
		return f.opened(r.own), nil
	}
}

func (f *fold) room(info domain.ChatRoomInfo) (verdict, error) {
	if _, ok := f.fresh[info.ID]; ok {
		return repeated, nil
	}
	if ok, err := f.known(info.ID); err != nil || ok {
		return repeated, err
	}
	f.pos.Rooms++
	info.Shard = domain.ShardOf(info.ID, f.pos.Life.Shards)
	f.fresh[info.ID] = struct{}{}
	f.rooms = append(f.rooms, domain.ListedRoom{Serial: f.pos.Rooms, Info: info})
	return changed, nil
}

func (f *fold) opened(e OwnerEntry) verdict {
	if int(e.Shard) >= f.pos.Life.Shards {
		return junk
	}
	old, ok := f.owners[e.Shard]
	if !ok {
		old, ok = f.owner(e.Shard)
	}
	switch {
	case ok && old == e:
		return repeated
	case ok && !old.less(e):
		return outdated
	}
	f.owners[e.Shard] = e
	return changed
}

// changes is what has to be committed.
func (f *fold) changes() Changes {
	c := Changes{Position: f.pos, Rooms: f.rooms}
	for _, e := range f.owners {
		c.Owners = append(c.Owners, e)
	}
	return c
}
