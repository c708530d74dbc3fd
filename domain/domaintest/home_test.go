package domaintest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHome_KeepsTheContract(t *testing.T) {
	domaintest.RunContract(t, func(t *testing.T) domaintest.Subject {
		h := domaintest.New(domaintest.Config{})
		return domaintest.Subject{
			Home: h,
			Lock: func(_ *testing.T, id domain.ShardID) { h.Lock(id) },
			Open: func(_ *testing.T, id domain.ShardID) { h.Open(id) },
		}
	})
}

func TestHome_MoveEndsTheTenureAndNamesTheNewOwner(t *testing.T) {
	a := domaintest.New(domaintest.Config{Shards: 2, Instance: domain.Instance{ID: "a"}})
	b := a.Join(domain.Instance{ID: "b"})
	info := a.AddRoom("lobby")
	x, err := a.ChatRoom(t.Context(), info.Shard, info.ID)
	if err != nil {
		t.Fatal(err)
	}
	a.PostN(info.ID, 3)
	woken := 0
	defer x.Feed().Watch(func() { woken++ })()
	a.Move(info.Shard, b)
	if woken != 1 || x.Feed().Err() == nil {
		t.Errorf("woken %d times, feed %v; want once and an end", woken, x.Feed().Err())
	}
	if s := a.Shards()[info.Shard]; s.State != domain.ShardNotAssigned || s.NotOwned.Owner.Instance.ID != "b" {
		t.Errorf("a sees %+v", s)
	}
	if _, err := a.ChatRoom(t.Context(), info.Shard, info.ID); err == nil {
		t.Error("the gate of a is open")
	}
	y, err := b.ChatRoom(t.Context(), info.Shard, info.ID)
	if err != nil {
		t.Fatal(err)
	}
	if y.Feed().Tip() != 3 {
		t.Errorf("b starts at %d, want 3", y.Feed().Tip())
	}
}

func TestHome_FaultWithWrittenCountsAllTheSame(t *testing.T) {
	h := domaintest.New(domaintest.Config{})
	info := h.AddRoom("lobby")
	x, _ := h.ChatRoom(t.Context(), info.Shard, info.ID)
	h.Inject(domaintest.Fault{Op: domaintest.OpSend, Err: &domain.OutcomeUnknownError{}, Written: true, Times: 1})
	d := domain.Draft{User: "alice", ClientID: "1", Text: "hi"}
	if _, _, err := x.Send(t.Context(), d); err == nil {
		t.Fatal("no fault")
	}
	m, duplicate, err := x.Send(t.Context(), d)
	if err != nil || !duplicate || m.Serial != 1 {
		t.Errorf("retry: %v %v %v, want the stored message", m, duplicate, err)
	}
}
