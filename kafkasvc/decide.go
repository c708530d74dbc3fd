package kafkasvc

import (
	"errors"
	"sync"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/record"
)

// The ends of a write that are not "stored". They stay inside this package: the room turns them into the
// typed errors of domain, with what is known about the shard by then.
var (
	errNotStored = errors.New("not stored")
	errUnknown   = errors.New("outcome unknown")
)

// recordOverhead bounds what a record adds to its strings, in bytes: key, field tags, lengths, offset, serial,
// time and Kafka's own framing.
const recordOverhead = 160

// known is what deciding looks at: the loaded state of one shard.
type known interface {
	// room returns a copy of the room's state.
	// OverloadedError: not now; every other error is a fault of the local store.
	room(id uuid.UUID) (r domain.ChatRoom, ok bool, err error)
	find(room uuid.UUID, user, clientID string) (domain.Message, bool, error)
}

// pending is one record of a batch and the commands that wait for it: the one that caused it, and duplicates.
type pending struct {
	message domain.Message
	info    domain.ChatRoomInfo // for a room
	create  bool
	cause   *command
	sharers []*command // ask for the very same record
}

func (p *pending) stored() result { return result{message: p.message, info: p.info} }

// batch is what one produce request carries. Once sent it never changes: it is sent again identically until
// its end is known.
type batch struct {
	base    domain.Offset // where its first record names to land; the i-th names base+i
	pending []pending
	records []kafkalog.Record

	copies  int  // sent so far
	unclear bool // a copy ended without an answer, so it may still land

	mu      sync.Mutex // for waiters, once the batch is out
	settled bool
}

// settle ends the commands that wait for each record with what end says, or returns them, in order, to be
// decided again. Nobody joins any more.
func (b *batch) settle(end func(i int) (r result, again bool)) (again []*command) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.settled {
		return nil
	}
	b.settled = true
	for i := range b.pending {
		r, re := end(i)
		p := &b.pending[i]
		if re {
			again = append(append(again, p.cause), p.sharers...)
			continue
		}
		p.cause.answer(r)
		r.duplicate = r.err == nil
		for _, c := range p.sharers {
			c.answer(r)
		}
	}
	return again
}

// fail ends every command of the batch with err.
func (b *batch) fail(err error) {
	b.settle(func(int) (result, bool) { return result{err: err}, false })
}

// share lets c, which asks for the very record that is in flight, wait for that record's end. false: it asks
// for something else, or the batch has ended.
func (b *batch) share(c *command) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.pending {
		if p := &b.pending[i]; !b.settled && p.cause.sameWrite(c) {
			p.sharers = append(p.sharers, c)
			return true
		}
	}
	return false
}

// reply is an answer that appends nothing. It is a read: it may leave only while the tenure holds the gate.
type reply struct {
	command *command
	result  result
}

// messageID is what a client's message id is unique in.
type messageID struct {
	room           uuid.UUID
	user, clientID string
}

// decision sorts commands into records to append, replies, and commands that must wait for one of the records.
type decision struct {
	batch   *batch
	replies []reply
	later   []*command
}

// decide judges commands in order against the shard's state and each other. Nothing is applied: a batch that
// does not count leaves no trace. An error is a fault of the local store; no command was answered then.
func decide(cmds []*command, shard domain.ShardID, base domain.Offset, state known, now domain.Millis) (decision, error) {
	b := &batch{base: base, pending: make([]pending, 0, len(cmds)), records: make([]kafkalog.Record, 0, len(cmds))}
	d := decision{batch: b}
	inBatch := make(map[messageID]int, len(cmds))
	rooms := make(map[uuid.UUID]*domain.ChatRoom, 8)
	created := make(map[uuid.UUID]int)
	arena := make([]byte, 0, arenaSize(cmds))

	room := func(id uuid.UUID) (*domain.ChatRoom, error) {
		if r, ok := rooms[id]; ok {
			return r, nil
		}
		r, ok, err := state.room(id)
		if err != nil || !ok {
			return nil, err
		}
		rooms[id] = &r
		return &r, nil
	}
	push := func(p *pending) {
		at := base + domain.Offset(len(b.records))
		from := len(arena)
		arena = domain.AppendRoomID(arena, p.cause.room) // record.Key
		value := len(arena)
		if p.create {
			arena = record.AppendChatRoom(arena, at, &p.info)
		} else {
			arena = record.AppendMessage(arena, at, &p.message)
		}
		b.records = append(b.records, kafkalog.Record{Key: arena[from:value:value], Value: arena[value:len(arena):len(arena)]})
	}

	for _, c := range cmds {
		r, err := room(c.room)
		if busy, ok := errors.AsType[*domain.OverloadedError](err); ok {
			d.replies = append(d.replies, reply{c, result{err: busy}})
			continue
		}
		if err != nil {
			return decision{}, err
		}
		if c.create {
			if i, ok := created[c.room]; ok {
				if b.pending[i].info.Name == c.name {
					b.pending[i].sharers = append(b.pending[i].sharers, c)
				} else {
					d.later = append(d.later, c)
				}
				continue
			}
			var existing *domain.ChatRoomInfo
			if r != nil {
				existing = &r.Info
			}
			info, duplicate, err := domain.CreateChatRoom(c.room, c.name, shard, existing, now)
			if err != nil || duplicate {
				d.replies = append(d.replies, reply{c, result{info: info, duplicate: duplicate, err: err}})
				continue
			}
			created[c.room] = len(b.pending)
			rooms[c.room] = &domain.ChatRoom{Info: info, LastAt: info.CreatedAt}
			b.pending = append(b.pending, pending{info: info, create: true, cause: c})
			push(&b.pending[len(b.pending)-1])
			continue
		}
		if r == nil {
			d.replies = append(d.replies, reply{c, result{err: &domain.UnknownChatRoomError{ID: c.room}}})
			continue
		}
		id := messageID{c.room, c.draft.User, c.draft.ClientID}
		if i, ok := inBatch[id]; ok {
			if b.pending[i].message.Text == c.draft.Text {
				b.pending[i].sharers = append(b.pending[i].sharers, c)
			} else {
				d.later = append(d.later, c) // a mutation of what is not stored yet
			}
			continue
		}
		stored, err := findStored(state, c)
		if err != nil {
			return decision{}, err
		}
		m, duplicate, err := r.AddMessage(c.draft, stored, now)
		if err != nil || duplicate {
			d.replies = append(d.replies, reply{c, result{message: m, duplicate: duplicate, err: err}})
			continue
		}
		inBatch[id] = len(b.pending)
		r.Apply(m.Serial, m.SentAt)
		b.pending = append(b.pending, pending{message: m, cause: c})
		push(&b.pending[len(b.pending)-1])
	}
	return d, nil
}

// findStored allocates only where there is something.
func findStored(state known, c *command) (*domain.Message, error) {
	m, ok, err := state.find(c.room, c.draft.User, c.draft.ClientID)
	if err != nil || !ok {
		return nil, err
	}
	return &m, nil
}

func arenaSize(cmds []*command) (n int) {
	for _, c := range cmds {
		n += c.size()
	}
	return n
}
