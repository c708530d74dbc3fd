package kafkasvc

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

func roomsOfOne(id uuid.UUID) *rooms {
	return newRooms(func(uuid.UUID) (domain.ChatRoom, bool, error) {
		return domain.ChatRoom{Info: domain.ChatRoomInfo{ID: id}, Last: 1}, true, nil
	}, func() error { return nil })
}

// collected runs the collector until gone says so.
func collected(gone func() bool) bool {
	for range 100 {
		runtime.GC()
		if gone() {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// What an ended tenure knew of its rooms goes: memory must not grow with the number of takeovers.
func TestRooms_GoWithTheirTenure(t *testing.T) {
	rs := roomsOfOne(uuid.New())
	s, _, err := rs.state(uuid.New())
	if err != nil {
		t.Fatal(err)
	}
	tenure, room := weak.Make(rs), weak.Make(s)
	runtime.KeepAlive(rs)
	runtime.KeepAlive(s) // from here on nobody holds them
	if !collected(func() bool { return tenure.Value() == nil && room.Value() == nil }) {
		t.Error("the rooms of an ended tenure are held for ever")
	}
}

// There is one state a room while anybody holds it, also after it was forgotten as not used lately; one that nobody
// holds goes, and leaves no entry.
func TestRooms_OneStateWhileHeld(t *testing.T) {
	id := uuid.New()
	rs := roomsOfOne(id)
	s, _, err := rs.state(id)
	if err != nil {
		t.Fatal(err)
	}
	rs.recent.Purge()
	runtime.GC()
	if again, _, err := rs.state(id); err != nil || again != s {
		t.Errorf("another state of a room that is held: %v", err)
	}
	rs.recent.Purge()
	runtime.KeepAlive(s) // from here on nobody holds it
	if !collected(func() bool {
		rs.mu.Lock()
		defer rs.mu.Unlock()
		return len(rs.states) == 0
	}) {
		t.Error("a state that nobody holds stays")
	}
}
