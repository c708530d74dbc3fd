package local

import (
	"slices"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
)

// pending is what a Fold will write. Messages and index entries lie one behind the other as they came; those of one
// page and of one bucket are chained, and become one row each in Commit. A million messages make few
// allocations, and none once the buffers have grown.
type pending struct {
	text    []byte // encoded page entries, and names
	entries []pendingEntry
	pages   []pendingPage
	names   []pendingName
	touched []*cachedRoom
	states  []pendingState // of the rooms touched, as they were when this was sealed

	index   []pendingIndex
	heads   map[bucket]int32 // place in buckets
	buckets []pendingBucket
}

// none ends a chain.
const none = int32(-1)

type pendingEntry struct {
	from, size uint32 // in text
	next       int32
}

type pendingPage struct {
	room       uuid.UUID
	page       uint64
	head, tail int32
	size       int
}

type pendingName struct {
	room       uuid.UUID
	from, size uint32
	created    domain.Millis
}

type pendingState struct {
	room uuid.UUID
	roomState
}

type pendingIndex struct {
	serial domain.Serial
	print  uint32
	next   int32
}

type pendingBucket struct {
	bucket
	head, tail int32
	size       int
}

func (p *pending) empty() bool {
	return len(p.touched) == 0
}

func (p *pending) bytes() int {
	return len(p.text) + 12*len(p.entries) + 48*len(p.pages) + 40*len(p.names) + 16*len(p.index) + 48*len(p.buckets) +
		(8+56)*len(p.touched)
}

func (p *pending) touch(r *cachedRoom) {
	if !r.touched {
		r.touched = true
		r.page = none
		p.touched = append(p.touched, r)
	}
}

func (p *pending) addName(room uuid.UUID, name []byte, created domain.Millis) {
	from := len(p.text)
	p.text = append(p.text, name...)
	p.names = append(p.names, pendingName{room, uint32(from), uint32(len(name)), created})
}

func (p *pending) addMessage(r *cachedRoom, v *record.View) {
	from := len(p.text)
	p.text = appendEntry(p.text, v.Serial, v.Time, v.User, v.ClientID, v.Text)
	size := len(p.text) - from
	n := int32(len(p.entries))
	p.entries = append(p.entries, pendingEntry{uint32(from), uint32(size), none})
	if page := pageOf(v.Serial); r.page == none || p.pages[r.page].page != page {
		r.page = int32(len(p.pages))
		p.pages = append(p.pages, pendingPage{r.id, page, n, n, size})
	} else {
		pp := &p.pages[r.page]
		p.entries[pp.tail].next = n
		pp.tail = n
		pp.size += size
	}
}

func (p *pending) addIndex(b bucket, print uint32, serial domain.Serial) {
	n := int32(len(p.index))
	p.index = append(p.index, pendingIndex{serial, print, none})
	size := indexEntryLen(serial)
	if at, ok := p.heads[b]; ok {
		pb := &p.buckets[at]
		p.index[pb.tail].next = n
		pb.tail = n
		pb.size += size
		return
	}
	if p.heads == nil {
		p.heads = map[bucket]int32{}
	}
	p.heads[b] = int32(len(p.buckets))
	p.buckets = append(p.buckets, pendingBucket{b, n, n, size})
}

// has looks for a message by user and client id. Only damaged logs need it, so it may be slow.
func (p *pending) has(r *cachedRoom, v *record.View, hash uint64) bool {
	for level := range byte(maxLevel + 1) {
		at, ok := p.heads[bucketOf(level, hash)]
		if !ok {
			continue
		}
		for n := p.buckets[at].head; n != none; n = p.index[n].next {
			if p.index[n].print == fingerprint(hash) && p.isMessage(r, v, p.index[n].serial) {
				return true
			}
		}
	}
	return false
}

func (p *pending) isMessage(r *cachedRoom, v *record.View, serial domain.Serial) bool {
	if !r.touched {
		return false
	}
	for i := range p.pages {
		pp := &p.pages[i]
		if pp.page != pageOf(serial) || pp.room != r.id {
			continue
		}
		for n := pp.head; n != none; n = p.entries[n].next {
			e := p.entries[n]
			if _, ok, err := findInPage(p.text[e.from:e.from+e.size], r.id, serial, v.User, v.ClientID); err == nil && ok {
				return true
			}
		}
	}
	return false
}

// retained is how large the buffers may be that a fold keeps although it hardly used them.
const retained = 1 << 20

// seal takes down the state of the rooms touched, which may change again from now on.
func (p *pending) seal() {
	p.states = slices.Grow(p.states[:0], len(p.touched))
	for _, r := range p.touched {
		p.states = append(p.states, pendingState{r.id, r.roomState})
		r.touched = false
		r.page = none
	}
	p.touched = p.touched[:0]
}

// clear forgets everything that was sealed. Buffers stay, unless those of a loader have become a group commit's.
func (p *pending) clear() {
	if cap(p.text) > retained && len(p.text) < cap(p.text)/8 {
		*p = pending{}
		return
	}
	p.text = p.text[:0]
	p.entries = p.entries[:0]
	p.pages = p.pages[:0]
	p.names = p.names[:0]
	p.states = p.states[:0]
	p.index = p.index[:0]
	p.buckets = p.buckets[:0]
	clear(p.heads)
}

// cachedRoom is a room as the fold left it.
type cachedRoom struct {
	id uuid.UUID
	roomState
	exists  bool
	touched bool  // its state row has to be written
	page    int32 // of pending.pages, the newest one of this room; none
}

// roomCache keeps the rooms that a fold has met. One of 65,536 rooms takes 8 MiB.
type roomCache struct {
	rooms     map[uuid.UUID]*cachedRoom
	slab      []cachedRoom // rooms are cut from slabs
	recent    *cachedRoom
	complete  bool // every room that there is has a place in here: the build is new and nothing was forgotten
	secret    hashKey
	hasSecret bool
}

const maxCachedRooms = 1 << 17

func (c *roomCache) find(id *uuid.UUID) *cachedRoom {
	if c.recent != nil && c.recent.id == *id {
		return c.recent
	}
	r := c.rooms[*id]
	if r != nil {
		c.recent = r
	}
	return r
}

func (c *roomCache) add(id *uuid.UUID) *cachedRoom {
	if len(c.slab) == 0 {
		c.slab = make([]cachedRoom, min(max(len(c.rooms), 8), 1024))
	}
	r := &c.slab[0]
	c.slab = c.slab[1:]
	r.id, r.page = *id, none
	if c.rooms == nil {
		c.rooms = map[uuid.UUID]*cachedRoom{}
	}
	c.rooms[*id] = r
	c.recent = r
	return r
}

func (c *roomCache) full() bool { return len(c.rooms) >= maxCachedRooms }

// clear forgets all rooms. None of them may be touched.
func (c *roomCache) clear() {
	c.rooms, c.slab, c.recent, c.complete = nil, nil, nil, false
}
