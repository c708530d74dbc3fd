package domaintest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// Subject is a home under test: alone in its house, without rooms, every shard open.
type Subject struct {
	Home domain.ChatHome

	// Lock ends the tenure of a shard, as a rebalance does, and returns once the gate is locked. Open gives
	// it a new one and returns once the gate is open. A home may lock and open other shards along with it.
	Lock, Open func(t *testing.T, shard domain.ShardID)
}

// Claim is one promise of domain.ChatHome.
type Claim struct {
	Name  string
	Check func(t *testing.T, s Subject)
}

// RunContract checks every claim, each against a home of its own.
func RunContract(t *testing.T, open func(t *testing.T) Subject) {
	for _, c := range Contract() {
		t.Run(c.Name, func(t *testing.T) { c.Check(t, open(t)) })
	}
}

// Contract lists all claims, for callers that need something around each check (a synctest bubble).
func Contract() []Claim {
	var all []Claim
	all = append(all, roomClaims()...)
	all = append(all, sendClaims()...)
	all = append(all, historyClaims()...)
	all = append(all, feedClaims()...)
	all = append(all, directoryClaims()...)
	return append(all, tenureClaims()...)
}

// patience is how long anything that is promised may take; far more than it should.
const patience = 20 * time.Second

func (s Subject) create(t *testing.T, name string) domain.ChatRoomInfo {
	t.Helper()
	return s.createID(t, s.Home.DrawChatRoomID(), name)
}

func (s Subject) createID(t *testing.T, id uuid.UUID, name string) domain.ChatRoomInfo {
	t.Helper()
	info, duplicate, err := s.Home.CreateChatRoom(t.Context(), id, name)
	if err != nil || duplicate {
		t.Fatalf("create: duplicate %v, %v", duplicate, err)
	}
	return info
}

func (s Subject) room(t *testing.T, info domain.ChatRoomInfo) domain.Room {
	t.Helper()
	x, err := s.Home.ChatRoom(t.Context(), info.Shard, info.ID)
	if err != nil {
		t.Fatalf("gate: %v", err)
	}
	return x
}

// filled is a room with n messages "text 1" … of user alice with the client ids "1" ….
func (s Subject) filled(t *testing.T, n int) (domain.Room, []domain.Message) {
	t.Helper()
	x := s.room(t, s.create(t, "filled"))
	return x, post(t, x, n)
}

func post(t *testing.T, x domain.Room, n int) []domain.Message {
	t.Helper()
	_, newest, err := x.Bounds(t.Context())
	if err != nil {
		t.Fatalf("bounds: %v", err)
	}
	var list []domain.Message
	for i := range n {
		list = append(list, send(t, x, draft(int(newest)+i+1)))
	}
	return list
}

func draft(i int) domain.Draft {
	return domain.Draft{User: "alice", ClientID: fmt.Sprint(i), Text: fmt.Sprint("text ", i)}
}

func send(t *testing.T, x domain.Room, d domain.Draft) domain.Message {
	t.Helper()
	m, duplicate, err := x.Send(t.Context(), d)
	if err != nil || duplicate {
		t.Fatalf("send %q: duplicate %v, %v", d.ClientID, duplicate, err)
	}
	return m
}

func bounds(t *testing.T, x domain.Room, oldest, newest domain.Serial) {
	t.Helper()
	o, n, err := x.Bounds(t.Context())
	if err != nil || o != oldest || n != newest {
		t.Errorf("bounds %d to %d, %v; want %d to %d", o, n, err, oldest, newest)
	}
}

// is fails the test unless err is an E.
func is[E error](t *testing.T, what string, err error) {
	t.Helper()
	_ = as[E](t, what, err)
}

// as is err as an E, or fails the test and is nil.
func as[E error](t *testing.T, what string, err error) (e E) {
	t.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		t.Errorf("%s: %v (%T), want a %T", what, err, err, e)
	}
	return e
}

// await waits for a wake-up until claim holds.
func await(t *testing.T, wake <-chan struct{}, what string, claim func() bool) {
	t.Helper()
	limit := time.After(patience)
	for !claim() {
		select {
		case <-wake:
		case <-limit:
			t.Fatalf("%s: nobody was woken for it", what)
		}
	}
}

func watch(t *testing.T, f domain.Feed) <-chan struct{} {
	wake := make(chan struct{}, 1)
	t.Cleanup(f.Watch(func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}))
	return wake
}
