package linear

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
	"github.com/chathome/chathome/test/check"
)

const limit = 10 * time.Second

var room = uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")

// run is what clients saw of a room with n messages: some sent more than once, some with unknown ends, all with
// readers beside them.
func run(n int) *check.History {
	r := rand.New(rand.NewPCG(1, 2))
	h := &check.History{}
	for i := range n {
		at := check.Time(10 * i)
		m := domain.Message{Room: room, Serial: domain.Serial(i + 1), User: "u", ClientID: fmt.Sprint(i), Text: "t"}
		h.Log = append(h.Log, check.Record{Offset: int64(i), Value: record.AppendMessage(nil, domain.Offset(i), &m)})
		send := check.Send{
			Client: "u", Room: room, User: "u", ClientID: m.ClientID, Text: "t", Invoked: at, Returned: at + 5 + check.Time(r.IntN(30)),
			Outcome: check.Stored, Message: check.Message{Room: room, Serial: int64(m.Serial), User: "u", ClientID: m.ClientID, Text: "t"},
		}
		if r.IntN(10) == 0 {
			lost := send
			lost.Outcome = check.Unknown
			h.Sent(lost)
			if r.IntN(2) == 0 {
				continue // it never learns
			}
			send.Invoked, send.Returned = send.Invoked+100, send.Returned+120
		}
		h.Sent(send)
		if r.IntN(3) == 0 { // before the append, or after it
			h.Looked(check.Read{Client: "r", Room: room, Invoked: at - 3, Returned: at + 20, Newest: int64(i + r.IntN(2))})
		}
	}
	return h
}

func TestCheck_FindsAnOrder(t *testing.T) {
	for _, n := range []int{0, 1, 3, 3000} {
		if r := Check(run(n), limit); !r.Clean() {
			t.Errorf("%d messages: %s", n, r)
		}
	}
}

func TestCheck_FindsWhatHasNone(t *testing.T) {
	for name, plant := range map[string]func(*check.History){
		"a stale read":           func(h *check.History) { h.Looked(check.Read{Room: room, Invoked: 9000, Returned: 9010, Newest: 850}) },
		"a read ahead of time":   func(h *check.History) { h.Looked(check.Read{Room: room, Invoked: 100, Returned: 110, Newest: 50}) },
		"told of one to come":    func(h *check.History) { h.Sends[0].Message.Serial = 900 },
		"a later one goes first": func(h *check.History) { h.Sends[3].Invoked, h.Sends[3].Returned = 5000, 5010 },
	} {
		t.Run(name, func(t *testing.T) {
			h := run(1000)
			plant(h)
			r := Check(h, limit)
			if r.Clean() || r.Bad[0].Unknown || !strings.Contains(r.String(), "no order") {
				t.Fatal(r)
			}
			var page bytes.Buffer
			if err := r.Bad[0].Draw(&page); err != nil || page.Len() == 0 {
				t.Error(err)
			}
		})
	}
}
