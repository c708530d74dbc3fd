package graph_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph/model"
)

// answered are the codes that a client may cause; INTERNAL is a fault of the program.
func answered(t *testing.T, r *response) {
	t.Helper()
	for _, e := range r.Errors {
		switch e.Extensions["code"] {
		case "BAD_REQUEST", "CURSOR_OUT_OF_RANGE", "UNKNOWN_CHAT_ROOM":
		default:
			t.Errorf("%s", r.raw)
		}
	}
}

func FuzzIDsAndCursors(f *testing.F) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	c.home.PostN(room.ID, 3)
	for _, s := range badRoomIDs {
		f.Add(s)
	}
	f.Add(room.ID.String())
	f.Add(messageID(room.ID, 1))
	for _, s := range cursorsOf(c.home, room) {
		f.Add(s)
	}
	f.Add(domain.ListCursor{Home: c.home.Home()}.String())
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return // JSON cannot carry it
		}
		answered(t, c.do(t, `query($s: ID!) { node(id: $s) { id } }`, vars("s", s)))
		answered(t, c.do(t, `query($s: String!) { chatRooms(after: $s) { edges { cursor } } }`, vars("s", s)))
		answered(t, c.do(t, pageDocument, vars("id", room.ID, "after", s)))
		answered(t, c.do(t, pageDocument, vars("id", room.ID, "before", s, "last", 1)))
		ctx, cancel := context.WithCancel(t.Context())
		answered(t, c.start(ctx, messagesDocument, vars("r", room.ID, "after", s))())
		answered(t, c.start(ctx, messagesDocument, vars("r", s))())
		cancel()
		if id, ok := model.ParseMessageID(s); ok && id.String() != s {
			t.Errorf("%q is a second name of %q", s, id)
		}
		if id, ok := domain.ParseRoomID(s); ok && id.String() != s {
			t.Errorf("%q is a second name of %q", s, id)
		}
		if p, err := domain.ParseCursor(s); err == nil && p.String() != s {
			t.Errorf("%q is a second name of %q", s, p)
		}
		if p, err := domain.ParseListCursor(s); err == nil && p.String() != s {
			t.Errorf("%q is a second name of %q", s, p)
		}
	})
}

func FuzzSendMessageInput(f *testing.F) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	for _, v := range []string{`"hi"`, `""`, `" "`, `4.0`, `true`, `null`, `[1]`, `{}`, `"\u0000"`, `1e999`, `"é"`, `-0`} {
		f.Add(v, `"1"`)
		f.Add(`"hi"`, v)
	}
	f.Fuzz(func(t *testing.T, text, clientID string) {
		if !json.Valid([]byte(text)) || !json.Valid([]byte(clientID)) || strings.Contains(text+clientID, `\u`) {
			return
		}
		r := c.do(t, sendDocument, `{"i": {"chatRoomId": "`+room.ID.String()+`", "user": "a", "clientId": `+clientID+`, "text": `+text+`}}`)
		answered(t, r)
		if stored := r.at("sendMessage", "message"); stored != nil {
			var wantText, wantID string
			if json.Unmarshal([]byte(text), &wantText) != nil || json.Unmarshal([]byte(clientID), &wantID) != nil {
				t.Fatalf("stored what is no string: %s %s", text, clientID)
			}
			if utf8.ValidString(text) && (walk(stored, "text") != wantText || walk(stored, "clientId") != wantID) {
				t.Errorf("sent %s %s, stored %s", text, clientID, jsonOf(stored))
			}
		}
	})
}

func FuzzCreateChatRoomInput(f *testing.F) {
	c := newClient(domaintest.Config{})
	for _, v := range []string{`"kitchen"`, `""`, `" "`, `4.0`, `true`, `null`, `[1]`, `{}`, `"\u0000"`, `"é"`, `"0b8f6e0a-5f0e-4f5e-9a45-0b8d3c6f7a11"`, `"0B8F6E0A-5f0e-4f5e-9a45-0b8d3c6f7a11"`} {
		f.Add(v, `null`)
		f.Add(`"kitchen"`, v)
	}
	f.Fuzz(func(t *testing.T, name, id string) {
		if !json.Valid([]byte(name)) || !json.Valid([]byte(id)) || strings.Contains(name+id, `\u`) || !utf8.ValidString(name+id) {
			return
		}
		r := c.do(t, createDocument, `{"i": {"name": `+name+`, "id": `+id+`}}`)
		answered(t, r)
		if room := r.at("createChatRoom", "chatRoom"); room != nil {
			var wantName string
			var wantID *string
			if json.Unmarshal([]byte(name), &wantName) != nil || json.Unmarshal([]byte(id), &wantID) != nil {
				t.Fatalf("created of what is no string: %s %s", name, id)
			}
			if walk(room, "name") != wantName || wantID != nil && walk(room, "id") != *wantID {
				t.Errorf("asked for %s %s, created %s", name, id, jsonOf(room))
			}
		}
	})
}

func FuzzPageArguments(f *testing.F) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	c.home.PostN(room.ID, 3)
	for _, v := range []string{`1`, `0`, `-1`, `1000`, `1001`, `99999999999`, `1.0`, `1e2`, `"1"`, `null`, `[]`, `{}`, `true`} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, n string) {
		if !json.Valid([]byte(n)) || !utf8.ValidString(n) {
			return
		}
		for _, argument := range []string{"first", "last"} {
			r := c.do(t, pageDocument, `{"id": "`+room.ID.String()+`", "`+argument+`": `+n+`}`)
			answered(t, r)
		}
		ctx, cancel := context.WithCancel(t.Context())
		answered(t, c.start(ctx, messagesDocument, `{"r": "`+room.ID.String()+`", "last": `+n+`}`)())
		cancel()
	})
}
