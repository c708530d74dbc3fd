package domain

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestChatRoom_TimeNeverStepsBack(t *testing.T) {
	r := ChatRoom{Info: ChatRoomInfo{ID: uuid.New()}, Last: 4, LastAt: 1000}
	m, _, err := r.AddMessage(Draft{"alice", "1", "hi"}, nil, 400) // this owner's clock is behind the last one's
	if err != nil || m.Serial != 5 || m.SentAt != 1000 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestChatRoom_RetryAndMutation(t *testing.T) {
	r := ChatRoom{Info: ChatRoomInfo{ID: uuid.New()}, Last: 7, LastAt: 1000}
	stored := Message{Room: r.Info.ID, Serial: 5, User: "alice", ClientID: "5", Text: "a", SentAt: 900}
	for _, other := range []string{"a ", "A", "a\n", "a\u200b", "e\u0301", " a"} {
		_, _, err := r.AddMessage(Draft{"alice", "5", other}, &stored, 2000)
		var mut *MessageMutationError
		if !errors.As(err, &mut) || mut.Existing != stored {
			t.Errorf("%q: %v", other, err)
		}
	}
	m, dup, err := r.AddMessage(Draft{"alice", "5", "a"}, &stored, 2000)
	if err != nil || !dup || m != stored {
		t.Errorf("%+v %t %v", m, dup, err)
	}
	if r.Last != 7 {
		t.Error("deciding applied something")
	}
}

func TestCreateChatRoom_IsIdempotentInItsID(t *testing.T) {
	id := uuid.New()
	a, dup, err := CreateChatRoom(id, "kitchen", 3, nil, 10)
	if err != nil || dup || a != (ChatRoomInfo{id, "kitchen", 3, 10}) {
		t.Fatalf("%+v %t %v", a, dup, err)
	}
	b, dup, err := CreateChatRoom(id, "kitchen", 3, &a, 20)
	if err != nil || !dup || b != a {
		t.Errorf("%+v %t %v", b, dup, err)
	}
	_, _, err = CreateChatRoom(id, "cellar", 3, &a, 20)
	var mut *ChatRoomMutationError
	if !errors.As(err, &mut) || mut.Existing != a {
		t.Errorf("%v", err)
	}
}

// A room against the plainest model: a list and a map.
func TestChatRoom_AgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := ChatRoom{Info: ChatRoomInfo{ID: uuid.New()}}
		var history []Message
		byID := map[[2]string]int{}
		now := Millis(1000)
		for range rapid.IntRange(0, 60).Draw(t, "n") {
			d := Draft{
				rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "user"),
				rapid.SampledFrom([]string{"1", "01", "2", "3"}).Draw(t, "id"),
				rapid.SampledFrom([]string{"a", "a ", "b"}).Draw(t, "text"),
			}
			now += Millis(rapid.IntRange(-500, 500).Draw(t, "clock"))
			var stored *Message
			if i, ok := byID[[2]string{d.User, d.ClientID}]; ok {
				stored = &history[i]
			}
			m, dup, err := r.AddMessage(d, stored, now)
			switch {
			case err != nil:
				if stored == nil || stored.Text == d.Text {
					t.Fatalf("mutation without cause: %v", err)
				}
				continue
			case dup:
				if m != *stored {
					t.Fatal("a retry answers another message")
				}
				continue
			}
			if FitOf(r.Last, m.Serial) != Fits {
				t.Fatal("a new message does not fit")
			}
			r.Apply(m.Serial, m.SentAt)
			byID[[2]string{d.User, d.ClientID}] = len(history)
			history = append(history, m)
		}
		for i, m := range history {
			if m.Serial != Serial(i+1) || i > 0 && m.SentAt < history[i-1].SentAt {
				t.Fatalf("message %d is %+v", i, m)
			}
		}
	})
}

func TestFitOf(t *testing.T) {
	for _, c := range []struct {
		last, serial Serial
		want         Fit
		accepted     bool
	}{{0, 1, Fits, true}, {4, 5, Fits, true}, {4, 4, Known, false}, {4, 1, Known, false}, {4, 6, Ahead, true}, {0, 2, Ahead, true}} {
		if got := FitOf(c.last, c.serial); got != c.want || got.Accepted() != c.accepted {
			t.Errorf("FitOf(%d, %d) = %v", c.last, c.serial, got)
		}
	}
}
