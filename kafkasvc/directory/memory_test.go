package directory

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

var errAway = errors.New("kafka is away")

// memTopic is the topic in memory: several instances share it. Its faults are those that count here.
type memTopic struct {
	mu      sync.Mutex
	exists  bool
	start   domain.Offset
	values  [][]byte // from start on
	lag     domain.Offset
	down    map[string]bool // of which instance
	lose    int             // appends whose answer is lost
	appends int
	reads   int
	bounds  int
	news    chan struct{}
}

func newMemTopic() *memTopic {
	return &memTopic{down: map[string]bool{}, news: make(chan struct{})}
}

// as is the topic as one instance reaches it.
func (t *memTopic) as(name string) Topic { return &memLink{t: t, name: name} }

func (t *memTopic) do(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f()
	close(t.news)
	t.news = make(chan struct{})
}

func (t *memTopic) put(values ...[]byte) {
	t.do(func() {
		t.exists = true
		for _, v := range values {
			t.values = append(t.values, slices.Clone(v))
		}
	})
}

// recreate deletes the topic and makes it again.
func (t *memTopic) recreate() {
	t.do(func() { t.start, t.values, t.exists = 0, nil, true })
}

func (t *memTopic) setDown(name string, down bool) { t.do(func() { t.down[name] = down }) }

func (t *memTopic) end() domain.Offset { return t.start + domain.Offset(len(t.values)) }

type memLink struct {
	t    *memTopic
	name string
}

func (l *memLink) Ensure(context.Context) error {
	var err error
	l.t.do(func() {
		if l.t.down[l.name] {
			err = errAway
			return
		}
		l.t.exists = true
	})
	return err
}

func (l *memLink) Append(_ context.Context, values [][]byte) (base domain.Offset, err error) {
	time.Sleep(time.Millisecond)
	l.t.do(func() {
		l.t.appends++
		if l.t.down[l.name] || !l.t.exists {
			err = errAway
			return
		}
		base = l.t.end()
		for _, v := range values {
			l.t.values = append(l.t.values, slices.Clone(v))
		}
		if l.t.lose > 0 {
			l.t.lose--
			err = errAway
		}
	})
	return base, err
}

func (l *memLink) Bounds(context.Context) (start, end domain.Offset, err error) {
	time.Sleep(time.Millisecond)
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.t.bounds++
	if l.t.down[l.name] || !l.t.exists {
		return 0, 0, errAway
	}
	return l.t.start, max(l.t.start, l.t.end()-l.t.lag), nil
}

func (l *memLink) Reader() Reader { return &memReader{l} }

type memReader struct{ *memLink }

func (r *memReader) Close() error { return nil }

func (r *memReader) Read(ctx context.Context, from domain.Offset, visit func(domain.Offset, []byte) bool) error {
	time.Sleep(time.Millisecond)
	deadline := time.NewTimer(250 * time.Millisecond)
	defer deadline.Stop()
	for {
		r.t.mu.Lock()
		r.t.reads++
		news, away := r.t.news, r.t.down[r.name] || !r.t.exists
		out := from < r.t.start || from > r.t.end()
		var values [][]byte
		if !away && !out {
			values = slices.Clone(r.t.values[from-r.t.start:])
		}
		r.t.mu.Unlock()
		switch {
		case away:
			return errAway
		case out:
			return ErrOutOfRange
		}
		for i, v := range values {
			if !visit(from+domain.Offset(i), v) {
				return nil
			}
		}
		if len(values) > 0 {
			return nil
		}
		select {
		case <-news:
		case <-deadline.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// memStore is a Store in memory.
type memStore struct {
	mu     sync.RWMutex
	pos    Position
	owners map[domain.ShardID]OwnerEntry
	rooms  []domain.ListedRoom
	byID   map[uuid.UUID]int
	fault  error
	writes int
}

func newMemStore() *memStore {
	return &memStore{owners: map[domain.ShardID]OwnerEntry{}, byID: map[uuid.UUID]int{}}
}

func (s *memStore) setFault(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

// lose drops everything behind the directory's back.
func (s *memStore) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pos, s.rooms, s.fault = Position{}, nil, ErrViewLost
	clear(s.owners)
	clear(s.byID)
}

func (s *memStore) Load() (Position, []OwnerEntry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var owners []OwnerEntry
	for _, o := range s.owners {
		owners = append(owners, o)
	}
	return s.pos, owners, s.fault
}

func (s *memStore) Room(id uuid.UUID) (domain.ListedRoom, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.fault != nil {
		return domain.ListedRoom{}, false, s.fault
	}
	i, ok := s.byID[id]
	if !ok {
		return domain.ListedRoom{}, false, nil
	}
	return s.rooms[i], true, nil
}

func (s *memStore) Rooms(after domain.Serial, limit int) ([]domain.ListedRoom, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.fault != nil {
		return nil, s.fault
	}
	from := min(int(after), len(s.rooms))
	return slices.Clone(s.rooms[from:min(from+limit, len(s.rooms))]), nil
}

func (s *memStore) Commit(c Changes) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.fault != nil {
		return s.fault
	}
	s.pos = c.Position
	for _, r := range c.Rooms {
		s.byID[r.Info.ID] = len(s.rooms)
		s.rooms = append(s.rooms, r)
	}
	for _, o := range c.Owners {
		s.owners[o.Shard] = o
	}
	return nil
}

func (s *memStore) Reset(p Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil && !errors.Is(s.fault, ErrViewLost) {
		return s.fault
	}
	s.pos, s.rooms, s.fault = p, nil, nil
	clear(s.owners)
	clear(s.byID)
	return nil
}
