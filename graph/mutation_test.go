package graph_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
)

func TestSendMessage_AnswersTheStoredMessage(t *testing.T) {
	c := newClient(domaintest.Config{Now: func() time.Time { return time.UnixMilli(1_800_000_000_010) }})
	room := c.home.AddRoom("lobby")
	first := c.send(t, room, "alice", "1", "hi")
	want := fmt.Sprintf(`{"__typename":"SendMessageSuccess","duplicate":false,"edge":{"cursor":"%s","node":{"id":"%s"}},`+
		`"message":{"chatRoom":{"id":"%s","name":"lobby"},"clientId":"1","id":"%s","sentAt":"2027-01-15T08:00:00.010Z","serial":"1","text":"hi","user":"alice"}}`,
		cursorsOf(c.home, room)["1"], messageID(room.ID, 1), room.ID, messageID(room.ID, 1))
	if got := jsonOf(first.at("sendMessage")); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	c.send(t, room, "alice", "2", "there")
	again := c.send(t, room, "alice", "1", "hi")
	if got := jsonOf(again.at("sendMessage")); got != strings.Replace(want, `"duplicate":false`, `"duplicate":true`, 1) {
		t.Errorf("retry: %s", got)
	}
}

func TestSendMessage_AnotherTextIsAMutationThatShowsTheFirst(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	c.send(t, room, "alice", "5", "é")
	for _, text := range []string{"é ", "É", "é\n", "é\u200b", "e\u0301", "\ufffd"} {
		r := c.send(t, room, "alice", "5", text).at("sendMessage")
		if walk(r, "__typename") != "MessageMutation" || walk(r, "existing", "text") != "é" || walk(r, "existing", "id") != messageID(room.ID, 1) || walk(r, "reason") == "" {
			t.Errorf("%q: %s", text, jsonOf(r))
		}
	}
	if r := c.send(t, room, "alice", "5", "é").at("sendMessage"); walk(r, "duplicate") != true || walk(r, "message", "serial") != "1" {
		t.Errorf("the first again: %s", jsonOf(r))
	}
}

func TestSendMessage_CacheKeysDiffer(t *testing.T) {
	c := newClient(domaintest.Config{})
	a, b := c.home.AddRoom("a"), c.home.AddRoom("b")
	keys := map[any]bool{}
	for _, r := range []*response{c.send(t, a, "alice", "1", "x"), c.send(t, a, "bob", "1", "x"), c.send(t, b, "alice", "1", "x"), c.send(t, b, "bob", "1", "x")} {
		keys[r.at("sendMessage", "message", "id")] = true
	}
	if len(keys) != 4 {
		t.Errorf("%d ids of 4 messages: %v", len(keys), keys)
	}
	got := c.start(t.Context(), `subscription($r: ID!) { messages(chatRoomId: $r) { edges { node { id } } } }`, vars("r", a.ID))()
	if id := got.at("messages", "edges", 0, "node", "id"); !keys[id] {
		t.Errorf("the subscription has another id: %v", id)
	}
}

func TestSendMessage_InvalidInputNamesEveryField(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	c.send(t, room, "alice", "1", "hi")
	c.home.LockAll() // what is wrong by itself needs no owner
	family := "👨‍👩‍👧‍👦"
	for _, tc := range []struct{ room, user, clientID, text, want string }{
		{"x", "", "", "", `chatRoomId UUID <nil> <nil>, user REQUIRED <nil> <nil>, clientId REQUIRED <nil> <nil>, text REQUIRED <nil> <nil>`},
		{room.ID.String(), "alice", "1", "", `text REQUIRED <nil> <nil>`},
		{room.ID.String(), "alice", "1", " ", `text BLANK <nil> <nil>`},
		{room.ID.String(), "alice", "1", "\n", `text BLANK <nil> <nil>`},
		{room.ID.String(), "alice", "1", "\t", `text BLANK <nil> <nil>`},
		{room.ID.String(), "alice", "1", "\u00a0", `text BLANK <nil> <nil>`},
		{room.ID.String(), "alice", "1", "ab\x00", `text CONTROL <nil> 2`},
		{room.ID.String(), "alice", "1", "\rab", `text CONTROL <nil> 0`},
		{room.ID.String(), "alice", "1", strings.Repeat("x", 8193), `text MAX_BYTES 8192 8193`},
		{room.ID.String(), "alice", "1", strings.Repeat(family, 328), `text MAX_BYTES 8192 8200`},
		{room.ID.String(), strings.Repeat("x", 129), strings.Repeat("1", 65), "hi", `user MAX_BYTES 128 129, clientId MAX_BYTES 64 65`},
		{room.ID.String(), "al ice", "1\n", "hi", `user PRINTABLE_ASCII <nil> 2, clientId PRINTABLE_ASCII <nil> 1`},
		{strings.ToUpper(room.ID.String()), "alice", "1", "hi", `chatRoomId UUID <nil> <nil>`},
	} {
		r := c.ok(t, sendDocument, vars("i", map[string]any{"chatRoomId": tc.room, "user": tc.user, "clientId": tc.clientID, "text": tc.text})).at("sendMessage")
		var got []string
		fields, _ := walk(r, "fields").([]any)
		for _, f := range fields {
			got = append(got, fmt.Sprintf("%v %v %v %v", walk(f, "field"), walk(f, "rule"), walk(f, "limit"), walk(f, "actual")))
		}
		if s := strings.Join(got, ", "); s != tc.want || walk(r, "__typename") != "InvalidInput" || walk(r, "reason") == "" {
			t.Errorf("%+v: %s", tc, jsonOf(r))
		}
	}
	c.home.OpenAll()
	for i, fits := range []string{strings.Repeat("x", 8192), strings.Repeat(family, 327), " hi", "hi ", "\ta\n"} {
		if r := c.send(t, room, "bob", fmt.Sprint(i), fits).at("sendMessage"); walk(r, "message", "text") != fits {
			t.Errorf("%d bytes: %s", len(fits), jsonOf(r))
		}
	}
}

func TestSendMessage_IDsKeepEveryDigitAndEverySpelling(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	for i, id := range []string{"9007199254740993", "9007199254740992", "7", "07", "007", "+7", "7.0", "7e0", "-0", "0", "-7", "0x7"} {
		m := c.send(t, room, "alice", id, "text of "+id).at("sendMessage")
		if walk(m, "message", "clientId") != id || walk(m, "message", "serial") != fmt.Sprint(i+1) {
			t.Errorf("%q: %s", id, jsonOf(m))
		}
	}
	for _, id := range []string{" 7", "7 "} {
		if m := c.send(t, room, "alice", id, "x").at("sendMessage"); walk(m, "__typename") != "InvalidInput" {
			t.Errorf("%q: %s", id, jsonOf(m))
		}
	}
	// A number is refused, inline or as a variable; a string inline is the same message as in a variable.
	inline := `mutation { sendMessage(input: {chatRoomId: "` + room.ID.String() + `", user: "alice", clientId: %s, text: "text of 9007199254740993"}) { ... on SendMessageSuccess { duplicate message { serial } } } }`
	if r := c.ok(t, fmt.Sprintf(inline, `"9007199254740993"`), ""); r.at("sendMessage", "duplicate") != true || r.at("sendMessage", "message", "serial") != "1" {
		t.Errorf("inline: %s", r.raw)
	}
	for _, bad := range []string{`9007199254740993`, `4.0`, `true`, `[1]`, `{}`, `null`} {
		if r := c.do(t, fmt.Sprintf(inline, bad), ""); r.code() != "BAD_REQUEST" {
			t.Errorf("inline %s: %s", bad, r.raw)
		}
		for _, field := range []string{"clientId", "chatRoomId", "text", "user"} {
			in := map[string]string{"chatRoomId": `"` + room.ID.String() + `"`, "user": `"alice"`, "clientId": `"1"`, "text": `"hi"`}
			in[field] = bad
			v := fmt.Sprintf(`{"i": {"chatRoomId": %s, "user": %s, "clientId": %s, "text": %s}}`, in["chatRoomId"], in["user"], in["clientId"], in["text"])
			if r := c.do(t, sendDocument, v); r.code() != "BAD_REQUEST" {
				t.Errorf("%s %s: %s", field, bad, r.raw)
			}
		}
	}
	for _, v := range []string{``, `{}`, `{"i": null}`, `{"i": []}`, `{"i": {"text": "hi"}}`, `{"i": {"chatRoomId": "a", "user": "a", "clientId": "a", "text": "a", "more": 1}}`} {
		if r := c.do(t, sendDocument, v); r.code() != "BAD_REQUEST" {
			t.Errorf("variables %s: %s", v, r.raw)
		}
	}
}

func TestSendMessage_UnknownRoom(t *testing.T) {
	c := newClient(domaintest.Config{})
	id := uuid.New()
	r := c.ok(t, sendDocument, vars("i", map[string]any{"chatRoomId": id, "user": "a", "clientId": "1", "text": "hi"})).at("sendMessage")
	if walk(r, "__typename") != "UnknownChatRoom" || walk(r, "chatRoomId") != id.String() || walk(r, "reason") == "" {
		t.Errorf("%s", jsonOf(r))
	}
}

func TestSendMessage_UnpairedSurrogatesInTheDocumentAreRefused(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	d := `mutation { sendMessage(input: {chatRoomId: "` + room.ID.String() + `", user: "a", clientId: "1", text: "%s"}) { ... on SendMessageSuccess { message { text } } } }`
	for _, bad := range []string{`\ud800`, `\udfff`, `a\uD800b`, `\udc00\ud800`, `\ud800\ud800`, "\xff"} {
		if r := c.do(t, fmt.Sprintf(d, bad), ""); r.code() != "BAD_REQUEST" {
			t.Errorf("%q: %s", bad, r.raw)
		}
	}
	if r := c.ok(t, fmt.Sprintf(d, `\ud83d\ude00`), ""); r.at("sendMessage", "message", "text") != "😀" {
		t.Errorf("a pair: %s", r.raw)
	}
}

const createDocument = `mutation($i: CreateChatRoomInput!) { createChatRoom(input: $i) {
	__typename
	... on CreateChatRoomSuccess { duplicate chatRoom { id name shard } }
	... on ChatRoomMutation { reason existing { id name } }
	... on InvalidInput { reason fields { field rule limit actual } }
} }`

func (c *client) create(t *testing.T, input map[string]any) *response {
	t.Helper()
	return c.do(t, createDocument, vars("i", input))
}

func TestCreateChatRoom_DrawsAnIDOnAnOpenShard(t *testing.T) {
	c := newClient(domaintest.Config{Shards: 8})
	c.home.LockAll()
	c.home.Open(5)
	for _, input := range []map[string]any{{"name": "lobby"}, {"name": "lobby", "id": nil}} {
		r := c.create(t, input)
		if r.at("createChatRoom", "__typename") != "CreateChatRoomSuccess" || fmt.Sprint(r.at("createChatRoom", "chatRoom", "shard")) != "5" {
			t.Errorf("%s", r.raw)
		}
		id := r.at("createChatRoom", "chatRoom", "id")
		again := c.create(t, map[string]any{"name": "lobby", "id": id})
		if again.at("createChatRoom", "duplicate") != true {
			t.Errorf("retry: %s", again.raw)
		}
	}
}

func TestCreateChatRoom_AnotherNameIsAMutation(t *testing.T) {
	c := newClient(domaintest.Config{})
	id := uuid.NewString()
	c.create(t, map[string]any{"name": "lobby", "id": id})
	r := c.create(t, map[string]any{"name": "Lobby", "id": id}).at("createChatRoom")
	if walk(r, "__typename") != "ChatRoomMutation" || walk(r, "existing", "name") != "lobby" || walk(r, "existing", "id") != id || walk(r, "reason") == "" {
		t.Errorf("%s", jsonOf(r))
	}
}

func TestCreateChatRoom_InvalidInput(t *testing.T) {
	c := newClient(domaintest.Config{})
	for _, tc := range []struct {
		input map[string]any
		want  string
	}{
		{map[string]any{"name": ""}, `[{"actual":null,"field":"name","limit":null,"rule":"REQUIRED"}]`},
		{map[string]any{"name": "", "id": "x"}, `[{"actual":null,"field":"id","limit":null,"rule":"UUID"},{"actual":null,"field":"name","limit":null,"rule":"REQUIRED"}]`},
		{map[string]any{"name": strings.Repeat("é", 129)}, `[{"actual":129,"field":"name","limit":128,"rule":"MAX_CHARACTERS"}]`},
		{map[string]any{"name": "a\u202e"}, `[{"actual":1,"field":"name","limit":null,"rule":"BIDI_OVERRIDE"}]`},
	} {
		r := c.create(t, tc.input).at("createChatRoom")
		if walk(r, "__typename") != "InvalidInput" || jsonOf(walk(r, "fields")) != tc.want {
			t.Errorf("%v: %s", tc.input, jsonOf(r))
		}
	}
	for _, id := range badRoomIDs {
		r := c.create(t, map[string]any{"name": "lobby", "id": id}).at("createChatRoom")
		if walk(r, "fields", 0, "rule") != "UUID" || walk(r, "fields", 0, "field") != "id" {
			t.Errorf("%q: %s", id, jsonOf(r))
		}
	}
	if rooms, _, _ := c.home.Directory().ChatRooms(t.Context(), 0, 9); len(rooms) != 0 {
		t.Errorf("written: %v", rooms)
	}
}

func TestCreateChatRoom_EveryErrorTellsTheIDForTheRetry(t *testing.T) {
	for _, tc := range []struct {
		name, code string
		fault      domaintest.Fault
	}{
		{"unknown", "OUTCOME_UNKNOWN", domaintest.Fault{Err: &domain.OutcomeUnknownError{Shard: 1}, Written: true}},
		{"overloaded", "OVERLOADED", domaintest.Fault{Err: &domain.OverloadedError{Resource: "writer"}}},
		{"a fault of the program", "INTERNAL", domaintest.Fault{Err: fmt.Errorf("secret")}},
		{"a panic", "INTERNAL", domaintest.Fault{Panic: "secret"}},
	} {
		for _, given := range []any{nil, uuid.NewString()} {
			c := newClient(domaintest.Config{})
			tc.fault.Op, tc.fault.Times = domaintest.OpCreateChatRoom, 1
			c.home.Inject(tc.fault)
			r := c.create(t, map[string]any{"name": "lobby", "id": given})
			id := r.Errors[0].Extensions["chatRoomId"]
			if r.code() != tc.code || id == nil || given != nil && id != given || strings.Contains(r.raw, "secret") {
				t.Errorf("%s: %s", tc.name, r.raw)
			}
			again := c.create(t, map[string]any{"name": "lobby", "id": id})
			if again.at("createChatRoom", "duplicate") != tc.fault.Written || again.at("createChatRoom", "chatRoom", "id") != id {
				t.Errorf("%s: retry: %s", tc.name, again.raw)
			}
		}
	}
	c := newClient(domaintest.Config{Closed: true})
	if r := c.create(t, map[string]any{"name": "lobby"}); r.code() != "SHARD_NOT_OWNED" || r.Errors[0].Extensions["chatRoomId"] == nil {
		t.Errorf("no open shard: %s", r.raw)
	}
}
