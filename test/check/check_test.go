package check

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
)

var room = uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")

// run is a clean history: ten messages by two clients, two subscribers, reads in between.
func run() *History {
	h := &History{}
	log := func(value []byte) { h.Log = append(h.Log, Record{0, int64(len(h.Log)), value}) }
	log(record.AppendTakeover(nil, &record.Takeover{Instance: domain.Instance{ID: "a"}}))
	log(record.AppendChatRoom(nil, 1, &domain.ChatRoomInfo{ID: room, Name: "r"}))
	log([]byte{0, 0, 0, 0, 0, 1})
	one, two := h.Follow("one", room, 0), h.Follow("two", room, 3)
	one.Complete, two.Complete = true, true
	for i := range 10 {
		client := []string{"alice", "bob"}[i%2]
		m := domain.Message{Room: room, Serial: domain.Serial(i + 1), User: client, ClientID: string(rune('a' + i)), Text: "t", SentAt: domain.Millis(i)}
		stray := m
		log(record.AppendMessage(nil, domain.Offset(len(h.Log)+7), &stray)) // a void copy
		log(record.AppendMessage(nil, domain.Offset(len(h.Log)), &m))
		seen := Message{room, int64(m.Serial), m.User, m.ClientID, m.Text, int64(m.SentAt)}
		h.Sent(Send{Client: client, Instance: "a", Invoked: Time(10 * i), Returned: Time(10*i + 5), Room: room, User: client, ClientID: m.ClientID, Text: "t", Outcome: Stored, Message: seen})
		h.Looked(Read{Client: client, Instance: "a", Invoked: Time(10*i + 6), Returned: Time(10*i + 7), Room: room, Newest: int64(i + 1)})
		one.Got(seen)
		if i >= 3 {
			two.Got(seen)
		}
	}
	return h
}

func TestCheck_PassesACleanRun(t *testing.T) {
	v := Check(run())
	if !v.Clean() || v.Messages != 10 || v.Facts.Void != 10 || v.Facts.Foreign != 1 || v.Deliveries != 17 {
		t.Errorf("%+v", v)
	}
	var b strings.Builder
	if _, err := v.WriteTo(&b); err != nil || strings.Contains(b.String(), "BROKEN") {
		t.Error(b.String(), err)
	}
}

// Each planted fault is found, and is told by its name.
func TestCheck_FindsEachFault(t *testing.T) {
	counting := func(h *History, serial int, change func(m *domain.Message)) {
		var v record.View
		for i, r := range h.Log {
			if v.Decode(r.Value) == nil && v.Kind == record.KindMessageAdded && v.Counts(domain.Offset(r.Offset)) && int(v.Serial) == serial {
				m := domain.Message{Room: v.Room, Serial: v.Serial, User: string(v.User), ClientID: string(v.ClientID), Text: string(v.Text), SentAt: v.Time}
				change(&m)
				h.Log[i].Value = record.AppendMessage(nil, domain.Offset(r.Offset), &m)
				return
			}
		}
	}
	extra := func(h *History, m domain.Message) {
		at := int64(len(h.Log))
		h.Log = append(h.Log, Record{0, at, record.AppendMessage(nil, domain.Offset(at), &m)})
	}
	for _, c := range []struct {
		want  Property
		name  string
		plant func(h *History)
	}{
		{Lost, "an acknowledged message is gone", func(h *History) { counting(h, 10, func(m *domain.Message) { m.ClientID = "other" }) }},
		{Lost, "another time", func(h *History) { h.Sends[4].Message.SentAt++ }},
		{Lost, "another serial", func(h *History) { h.Sends[4].Message.Serial++ }},
		{Doubled, "stored twice", func(h *History) {
			extra(h, domain.Message{Room: room, Serial: 11, User: "alice", ClientID: "a", Text: "t", SentAt: 99})
		}},
		{Doubled, "a room created twice", func(h *History) {
			h.Log = append(h.Log, Record{0, int64(len(h.Log)), record.AppendChatRoom(nil, domain.Offset(len(h.Log)), &domain.ChatRoomInfo{ID: room, Name: "r"})})
		}},
		{Phantom, "nobody sent it", func(h *History) {
			extra(h, domain.Message{Room: room, Serial: 11, User: "mallory", ClientID: "a", Text: "t", SentAt: 99})
		}},
		{FalseNo, "told that it is not stored", func(h *History) { h.Sends[9].Outcome = NotOwned }},
		{FalseMutation, "a mutation of nothing", func(h *History) {
			h.Sent(Send{Client: "alice", Room: room, User: "alice", ClientID: "zz", Text: "t", Outcome: Mutation})
		}},
		{FalseMutation, "the same text", func(h *History) {
			s := h.Sends[2]
			s.Outcome = Mutation
			h.Sent(s)
		}},
		{Divergence, "a subscriber saw another text", func(h *History) { h.Streams[0].Messages[4].Text = "u" }},
		{Order, "time steps back", func(h *History) { counting(h, 5, func(m *domain.Message) { m.SentAt = 0 }) }},
		{RealTimeOrder, "a later one has the smaller serial", func(h *History) { h.Sends[3].Invoked, h.Sends[3].Returned = 200, 300 }},
		{ReadYourWrites, "an own message is not seen", func(h *History) { h.Reads[5].Newest = 5 }},
		{StaleRead, "another's message is not seen", func(h *History) {
			h.Looked(Read{Client: "carol", Instance: "b", Invoked: 200, Returned: 201, Room: room, Newest: 9})
		}},
		{StreamGap, "a message is missed", func(h *History) { h.Streams[0].Messages = slices.Delete(h.Streams[0].Messages, 4, 5) }},
		{StreamGap, "a message comes twice", func(h *History) { h.Streams[1].Got(h.Streams[1].Messages[6]) }},
		{SerialGap, "a serial is missing", func(h *History) { counting(h, 10, func(m *domain.Message) { m.Serial = 12 }) }},
		{Incomplete, "the end is not reached", func(h *History) { h.Streams[1].Messages = h.Streams[1].Messages[:6] }},
	} {
		t.Run(string(c.want)+": "+c.name, func(t *testing.T) {
			h := run()
			c.plant(h)
			if v := Check(h); v.Broken[c.want] == 0 {
				t.Errorf("not found; broken: %v", v.Broken)
			}
		})
	}
}
