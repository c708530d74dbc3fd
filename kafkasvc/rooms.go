package kafkasvc

import (
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/google/uuid"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/feed"
)

// roomState is a room of an open shard in memory: what deciding needs, and the feed of those who follow it.
// room is the writer's own; others read info, tip and feed.
type roomState struct {
	info domain.ChatRoomInfo
	room domain.ChatRoom
	feed atomic.Pointer[feed.Feed]
}

// follow is the room's feed. One that has ended is of before a lapse of the lease: its end is for ever, so who
// comes now gets another.
func (s *roomState) follow(check func() error) *feed.Feed {
	for {
		f := s.feed.Load()
		if !f.Ended() {
			return f
		}
		s.feed.CompareAndSwap(f, feed.New(f.Tip(), check))
	}
}

// rooms holds the room states of one tenure. There is one state a room while anybody holds it, so that all
// who follow a room share one feed; who is not held and not used lately goes, so that memory does not grow
// with the number of rooms.
type rooms struct {
	load  func(id uuid.UUID) (domain.ChatRoom, bool, error) // from the local store
	check func() error                                      // does the tenure hold the gate

	mu      sync.Mutex
	states  map[uuid.UUID]weak.Pointer[roomState]
	recent  *simplelru.LRU[uuid.UUID, *roomState]
	applied uint64 // counts group commits: a state loaded beside one is loaded again
}

const recentRooms = 4096 // about 1 MiB a shard

func newRooms(load func(uuid.UUID) (domain.ChatRoom, bool, error), check func() error) *rooms {
	recent, err := simplelru.NewLRU[uuid.UUID, *roomState](recentRooms, nil)
	if err != nil {
		panic(err) // only for a size below 1
	}
	return &rooms{load: load, check: check, states: make(map[uuid.UUID]weak.Pointer[roomState]), recent: recent}
}

// state finds a room. ok is false where the shard has none with this id.
func (rs *rooms) state(id uuid.UUID) (s *roomState, ok bool, err error) {
	for {
		rs.mu.Lock()
		s := rs.held(id)
		applied := rs.applied
		rs.mu.Unlock()
		if s != nil {
			return s, true, nil
		}
		room, ok, err := rs.load(id)
		if err != nil || !ok {
			return nil, false, err
		}
		rs.mu.Lock()
		if s = rs.held(id); s == nil && rs.applied == applied {
			s = rs.add(room)
		}
		rs.mu.Unlock()
		if s != nil {
			return s, true, nil
		}
	}
}

// held needs mu.
func (rs *rooms) held(id uuid.UUID) *roomState {
	if s, ok := rs.recent.Get(id); ok {
		return s
	}
	s := rs.states[id].Value()
	if s != nil {
		rs.recent.Add(id, s)
	}
	return s
}

// add needs mu.
func (rs *rooms) add(room domain.ChatRoom) *roomState {
	s := &roomState{info: room.Info, room: room}
	s.feed.Store(feed.New(room.Last, rs.check))
	id := room.Info.ID
	rs.states[id] = weak.Make(s)
	rs.recent.Add(id, s)
	// The clean-up must not hold rs, from which s can be reached: nothing of the tenure would ever go.
	held := weak.Make(rs)
	runtime.AddCleanup(s, func(id uuid.UUID) {
		if rs := held.Value(); rs != nil {
			rs.forget(id)
		}
	}, id)
	return s
}

func (rs *rooms) forget(id uuid.UUID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if p, ok := rs.states[id]; ok && p.Value() == nil {
		delete(rs.states, id)
	}
}

// apply brings the states up to a group commit that is in the local store, and wakes each room's followers
// once. touched holds, by room, its state after the commit.
func (rs *rooms) apply(touched map[uuid.UUID]domain.ChatRoom) {
	type advance struct {
		f   *feed.Feed
		tip domain.Serial
	}
	advances := make([]advance, 0, len(touched))
	rs.mu.Lock()
	rs.applied++
	for id, room := range touched {
		s := rs.held(id)
		if s == nil {
			s = rs.add(room)
		}
		s.room = room
		advances = append(advances, advance{s.feed.Load(), room.Last})
	}
	rs.mu.Unlock()
	for _, a := range advances {
		a.f.Advance(a.tip)
	}
}

// endFeeds ends whoever follows a room now. Who comes later gets a new feed: whether that one stands is for
// its check to say.
func (rs *rooms) endFeeds(err error) {
	rs.mu.Lock()
	var feeds []*feed.Feed
	for _, p := range rs.states {
		if s := p.Value(); s != nil {
			old := s.feed.Load()
			s.feed.Store(feed.New(old.Tip(), rs.check))
			feeds = append(feeds, old)
		}
	}
	rs.mu.Unlock()
	for _, f := range feeds {
		f.End(err)
	}
}
