package graph_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
)

const pageDocument = `query($id: ID!, $first: Int, $after: String, $last: Int, $before: String) {
	chatRoom(id: $id) { messages(first: $first, after: $after, last: $last, before: $before) {
		edges { cursor node { serial } } pageInfo { hasPreviousPage hasNextPage startCursor endCursor }
	} }
}`

func TestMessages_Pages(t *testing.T) {
	c := newClient(domaintest.Config{})
	empty, full := c.home.AddRoom("empty"), c.home.AddRoom("full")
	c.home.PostN(full.ID, 5)
	cursors := cursorsOf(c.home, full)
	for _, tc := range []struct {
		room domain.ChatRoomInfo
		args string // cursors are named by their serial
		want string // serials, < when there is a previous page, > when there is a next one
	}{
		{empty, ``, ``},
		{empty, `{"first": 2}`, ``},
		{empty, `{"first": 0}`, ``},
		{empty, `{"last": 2}`, ``},
		{full, ``, `1 2 3 4 5`},
		{full, `{"first": null, "after": null, "last": null, "before": null}`, `1 2 3 4 5`},
		{full, `{"first": 2}`, `1 2 >`},
		{full, `{"first": 5}`, `1 2 3 4 5`},
		{full, `{"first": 1000}`, `1 2 3 4 5`},
		{full, `{"first": 0}`, `>`},
		{full, `{"first": 2, "after": 0}`, `1 2 >`},
		{full, `{"first": 2, "after": 2}`, `< 3 4 >`},
		{full, `{"first": 2, "after": 3}`, `< 4 5`},
		{full, `{"first": 2, "after": 5}`, `<`},
		{full, `{"first": 0, "after": 2}`, `< >`},
		{full, `{"first": 0, "after": 5}`, `<`},
		{full, `{"after": 3}`, `< 4 5`},
		{full, `{"before": 3}`, `1 2 >`},
		{full, `{"first": 9, "after": 1, "before": 4}`, `< 2 3 >`},
		{full, `{"last": 2}`, `< 4 5`},
		{full, `{"last": 5}`, `1 2 3 4 5`},
		{full, `{"last": 0}`, `<`},
		{full, `{"last": 2, "before": 4}`, `< 2 3 >`},
		{full, `{"last": 2, "before": 3}`, `1 2 >`},
		{full, `{"last": 2, "before": 1}`, `>`},
		{full, `{"last": 2, "before": 0}`, `>`},
		{full, `{"last": 0, "before": 3}`, `< >`},
		{full, `{"last": 9, "after": 2}`, `< 3 4 5`},
		{full, `{"last": 2, "after": 1, "before": 5}`, `< 3 4 >`},
		{full, `{"first": 2, "after": 3, "before": 3}`, `< >`},
		{full, `{"first": 2, "after": 3, "before": 4}`, `< >`},
		{full, `{"first": 2, "after": 5, "before": 5}`, `<`},
		{full, `{"last": 2, "after": 4, "before": 2}`, `< >`},
		{full, `{"first": 2, "before": 0}`, `>`},
	} {
		r := c.ok(t, pageDocument, pageVars(tc.room, tc.args, cursors))
		p := r.at("chatRoom", "messages")
		if got := summary(p); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.args, got, tc.want)
		}
		edges, _ := walk(p, "edges").([]any)
		start, end := walk(p, "pageInfo", "startCursor"), walk(p, "pageInfo", "endCursor")
		if len(edges) == 0 && (start != nil || end != nil) {
			t.Errorf("%s: cursors %v, %v of an empty page", tc.args, start, end)
		}
		if n := len(edges); n > 0 && (start != walk(edges, 0, "cursor") || end != walk(edges, n-1, "cursor")) {
			t.Errorf("%s: cursors %v, %v; edges %v", tc.args, start, end, edges)
		}
		for _, e := range edges {
			if serial := walk(e, "node", "serial"); walk(e, "cursor") != cursors[fmt.Sprint(serial)] {
				t.Errorf("%s: the cursor of %v is another one than in the domain", tc.args, serial)
			}
		}
	}
}

// cursorsOf are the cursors of a room by serial.
func cursorsOf(h *domaintest.Home, info domain.ChatRoomInfo) map[string]string {
	x, err := h.ChatRoom(ctx(), info.Shard, info.ID)
	if err != nil {
		panic(err)
	}
	_, newest, err := x.Bounds(ctx())
	if err != nil {
		panic(err)
	}
	all := map[string]string{}
	for s := domain.Serial(0); s <= newest; s++ {
		c, err := x.CursorAt(ctx(), s)
		if err != nil {
			panic(err)
		}
		all[fmt.Sprint(s)] = c.String()
	}
	return all
}

func pageVars(room domain.ChatRoomInfo, args string, cursors map[string]string) string {
	m := parse(args)
	for _, name := range []string{"after", "before"} {
		if n, ok := m[name].(float64); ok {
			m[name] = cursors[fmt.Sprint(n)]
		}
	}
	m["id"] = room.ID.String()
	return jsonOf(m)
}

func summary(p any) string {
	var words []string
	if walk(p, "pageInfo", "hasPreviousPage") == true {
		words = append(words, "<")
	}
	for _, e := range walk(p, "edges").([]any) {
		words = append(words, fmt.Sprint(walk(e, "node", "serial")))
	}
	if walk(p, "pageInfo", "hasNextPage") == true {
		words = append(words, ">")
	}
	return strings.Join(words, " ")
}

func TestMessages_RefusesPageSizesAndNamesTheCap(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	c.home.PostN(room.ID, 3)
	for _, args := range []string{
		`{"first": 1001}`, `{"last": 1001}`, `{"first": -1}`, `{"last": -1}`, `{"first": 2147483647}`, `{"first": -2147483648}`,
		`{"first": 2, "last": 2}`, `{"first": 0, "last": 0}`,
	} {
		r := c.do(t, pageDocument, pageVars(room, args, nil))
		if r.code() != "BAD_REQUEST" || !strings.Contains(r.Errors[0].Message, "1000") {
			t.Errorf("%s: %s", args, r.raw)
		}
	}
	for _, args := range []string{
		`{"first": 2147483648}`, `{"first": 99999999999}`, `{"first": 99999999999999999999}`, `{"first": 1.5}`, `{"first": 1e3}`, `{"first": "2"}`, `{"first": true}`, `{"first": [2]}`, `{"first": {}}`,
	} {
		d := `query($id: ID!, $first: Int) { chatRoom(id: $id) { messages(first: $first) { edges { cursor } } } }`
		r := c.do(t, d, fmt.Sprintf(`{"id": %q, %s`, room.ID, args[1:]))
		if r.code() != "BAD_REQUEST" {
			t.Errorf("%s: %s", args, r.raw)
		}
	}
	for _, literal := range []string{"2147483648", "99999999999", "1.5", `"2"`, "true", "[2]", "-1", "1001"} {
		r := c.do(t, fmt.Sprintf(`{ chatRoom(id: %q) { messages(first: %s) { edges { cursor } } } }`, room.ID, literal), "")
		if r.code() != "BAD_REQUEST" {
			t.Errorf("%s: %s", literal, r.raw)
		}
	}
}

func TestMessages_DefaultIsFifty(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	c.home.PostN(room.ID, 51)
	p := c.ok(t, pageDocument, vars("id", room.ID)).at("chatRoom", "messages")
	if n := len(walk(p, "edges").([]any)); n != 50 || walk(p, "pageInfo", "hasNextPage") != true {
		t.Errorf("%d edges, next %v", n, walk(p, "pageInfo", "hasNextPage"))
	}
}

func TestMessages_APageOfLargeTextsIsBoundedInBytes(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	for i := range 200 {
		c.home.Post(room.ID, domain.Draft{User: "a", ClientID: fmt.Sprint(i), Text: strings.Repeat("x", domain.MaxTextBytes)})
	}
	got := 0
	for after := any(nil); ; {
		p := c.ok(t, pageDocument, vars("id", room.ID, "first", 1000, "after", after)).at("chatRoom", "messages")
		n := len(walk(p, "edges").([]any))
		if n > 1<<20/domain.MaxTextBytes {
			t.Errorf("%d edges of %d bytes", n, domain.MaxTextBytes)
		}
		got += n
		if walk(p, "pageInfo", "hasNextPage") == false {
			break
		}
		after = walk(p, "pageInfo", "endCursor")
	}
	if got != 200 {
		t.Errorf("%d messages, want 200", got)
	}
}

// badCursors are positions of other rooms, of other lives, from the future, damaged or invented, and what each must be
// answered as `after` of the room.
func badCursors(h *domaintest.Home, room domain.ChatRoomInfo) map[string]struct{ cursor, code string } {
	good := cursorsOf(h, room)["2"]
	parsed, _ := domain.ParseCursor(good)
	other := h.AddRoomOn(room.Shard, "same shard")
	h.PostN(other.ID, 3)
	elsewhere := h.AddRoomOn((room.Shard+1)%4, "other shard")
	h.PostN(elsewhere.ID, 3)
	changed := func(f func(*domain.Cursor)) string {
		c := parsed
		f(&c)
		return c.String()
	}
	type b = struct{ cursor, code string }
	return map[string]b{
		"of a room on the same shard":    {cursorsOf(h, other)["2"], "BAD_REQUEST"},
		"of a room on another shard":     {cursorsOf(h, elsewhere)["2"], "BAD_REQUEST"},
		"of the room list":               {domain.ListCursor{Home: h.Home()}.String(), "BAD_REQUEST"},
		"empty":                          {"", "BAD_REQUEST"},
		"0":                              {"0", "BAD_REQUEST"},
		"-1":                             {"-1", "BAD_REQUEST"},
		"abc":                            {"abc", "BAD_REQUEST"},
		"99999999999999999999":           {"99999999999999999999", "BAD_REQUEST"},
		"flipped":                        {flip(good), "BAD_REQUEST"},
		"cut":                            {good[:len(good)-1], "BAD_REQUEST"},
		"longer":                         {good + "A", "BAD_REQUEST"},
		"padded":                         {good + "=", "BAD_REQUEST"},
		"one past the end":               {changed(func(c *domain.Cursor) { c.Serial = 4 }), "CURSOR_OUT_OF_RANGE"},
		"far past the end":               {changed(func(c *domain.Cursor) { c.Serial = math.MaxInt64 }), "CURSOR_OUT_OF_RANGE"},
		"of another life":                {changed(func(c *domain.Cursor) { c.Home = uuid.New() }), "CURSOR_OUT_OF_RANGE"},
		"of another message":             {changed(func(c *domain.Cursor) { c.Hash++ }), "CURSOR_OUT_OF_RANGE"},
		"before the start (forged)":      {changed(func(c *domain.Cursor) { c.Serial = -1 }), "BAD_REQUEST"},
		"another life and another room":  {changed(func(c *domain.Cursor) { c.Home, c.Room = uuid.New(), other.ID }), "BAD_REQUEST"},
		"a message id instead":           {strings.Repeat("A", 39), "BAD_REQUEST"},
		"a room id instead of a cursor":  {room.ID.String(), "BAD_REQUEST"},
		"something long and not a curso": {strings.Repeat("x", 10_000), "BAD_REQUEST"},
	}
}

func flip(s string) string {
	b := []byte(s)
	if b[20] == 'A' {
		b[20] = 'B'
	} else {
		b[20] = 'A'
	}
	return string(b)
}

func TestMessages_BadCursors(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	c.home.PostN(room.ID, 3)
	for name, bad := range badCursors(c.home, room) {
		for _, argument := range []string{"after", "before"} {
			r := c.do(t, pageDocument, vars("id", room.ID, argument, bad.cursor))
			if r.code() != bad.code {
				t.Errorf("%s as %s: %s, want %s", name, argument, r.raw, bad.code)
			}
			if bad.code == "CURSOR_OUT_OF_RANGE" {
				x := r.Errors[0].Extensions
				if x["oldestCursor"] != cursorsOf(c.home, room)["0"] || x["newestCursor"] != cursorsOf(c.home, room)["3"] {
					t.Errorf("%s: extensions %v", name, x)
				}
			}
		}
	}
}

func TestMessages_HistoryThatWasDeleted(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	c.home.PostN(room.ID, 5)
	cursors := cursorsOf(c.home, room)
	c.home.DeleteBefore(room.ID, 4)
	p := c.ok(t, pageDocument, vars("id", room.ID, "first", 1)).at("chatRoom", "messages")
	if got := summary(p); got != "4 >" {
		t.Errorf("from the start: %q", got)
	}
	r := c.do(t, pageDocument, vars("id", room.ID, "after", cursors["2"]))
	if r.code() != "CURSOR_OUT_OF_RANGE" {
		t.Fatalf("below the start: %s", r.raw)
	}
	oldest := r.Errors[0].Extensions["oldestCursor"]
	p = c.ok(t, pageDocument, vars("id", room.ID, "after", oldest)).at("chatRoom", "messages")
	if got := summary(p); got != "4 5" {
		t.Errorf("behind the oldest cursor: %q, want all that is left", got)
	}
	c.home.DeleteBefore(room.ID, 9)
	r = c.do(t, pageDocument, vars("id", room.ID, "after", cursors["2"]))
	if x, ok := r.Errors[0].Extensions["oldestCursor"]; r.code() != "CURSOR_OUT_OF_RANGE" || !ok || x != nil {
		t.Errorf("nothing left: %s", r.raw)
	}
	if got := summary(c.ok(t, pageDocument, vars("id", room.ID)).at("chatRoom", "messages")); got != "" {
		t.Errorf("nothing left: %q", got)
	}
}

func TestQuery_ChatRoomIsAnsweredWhileLocked_ItsMessagesAreNot(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 30, 0, 0, time.FixedZone("east", 5*3600+45*60))
	c := newClient(domaintest.Config{Now: func() time.Time { return at }})
	room := c.home.AddRoom("Ĺobby")
	c.home.LockAll()
	r := c.do(t, `query($id: ID!) { chatRoom(id: $id) { id name shard createdAt message(user: "a", clientId: "b") { id } messages { edges { cursor } } } instance { id url } }`, vars("id", room.ID))
	want := fmt.Sprintf(`{"createdAt":"2026-03-01T03:45:00.000Z","id":"%s","message":null,"messages":null,"name":"Ĺobby","shard":%d}`, room.ID, room.Shard)
	if got := jsonOf(r.at("chatRoom")); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if r.at("instance", "id") != "memory" {
		t.Errorf("the sibling went along: %s", r.raw)
	}
	if len(r.Errors) != 2 {
		t.Fatalf("errors: %s", r.raw)
	}
	for _, e := range r.Errors {
		if e.Extensions["code"] != "SHARD_NOT_OWNED" || len(e.Path) != 2 || e.Path[0] != "chatRoom" || len(e.Locations) != 1 {
			t.Errorf("error %+v", e)
		}
	}
}

func TestQuery_UnknownRoomIsNull(t *testing.T) {
	c := newClient(domaintest.Config{})
	r := c.ok(t, `query($id: ID!) { chatRoom(id: $id) { id } node(id: $id) { id } }`, vars("id", uuid.New()))
	if r.at("chatRoom") != nil || r.at("node") != nil {
		t.Errorf("%s", r.raw)
	}
	c.home.Inject(domaintest.Fault{Op: domaintest.OpDirectoryRoom, Err: &domain.OverloadedError{Resource: "directory", RetryAfter: time.Second}})
	if r := c.do(t, `query($id: ID!) { chatRoom(id: $id) { id } }`, vars("id", uuid.New())); r.code() != "OVERLOADED" {
		t.Errorf("not certain, but %s", r.raw)
	}
}

// badRoomIDs are spellings that are no room's id.
var badRoomIDs = []string{
	"", "x", "0", "00000000-0000-0000-0000-00000000000", "0c2e5a3c-9b7a-4a55-8f0e-2d1c8b1f6e4A", "{0c2e5a3c-9b7a-4a55-8f0e-2d1c8b1f6e4a}",
	"urn:uuid:0c2e5a3c-9b7a-4a55-8f0e-2d1c8b1f6e4a", "0c2e5a3c9b7a4a558f0e2d1c8b1f6e4a", " 0c2e5a3c-9b7a-4a55-8f0e-2d1c8b1f6e4a", "0c2e5a3c-9b7a-4a55-8f0e-2d1c8b1f6e4a\n", "0c2e5a3c_9b7a_4a55_8f0e_2d1c8b1f6e4a",
}

func TestIDs_OfRoomsAreCanonical(t *testing.T) {
	c := newClient(domaintest.Config{})
	for _, id := range badRoomIDs {
		for _, d := range []string{
			`query($id: ID!) { chatRoom(id: $id) { id } }`, `query($id: ID!) { node(id: $id) { id } }`, `subscription($id: ID!) { messages(chatRoomId: $id) { live } }`,
		} {
			if r := c.do(t, d, vars("id", id)); r.code() != "BAD_REQUEST" {
				t.Errorf("%q in %s: %s", id, d, r.raw)
			}
		}
	}
}

func TestNode_ResolvesBothKinds_MessagesBehindTheGate(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	id := c.send(t, room, "alice", "1", "hi").at("sendMessage", "message", "id")
	d := `query($id: ID!) { node(id: $id) { __typename id ... on ChatRoom { name } ... on Message { text serial chatRoom { name } } } }`
	if got := jsonOf(c.ok(t, d, vars("id", room.ID)).at("node")); got != fmt.Sprintf(`{"__typename":"ChatRoom","id":"%s","name":"lobby"}`, room.ID) {
		t.Errorf("room: %s", got)
	}
	if got := jsonOf(c.ok(t, d, vars("id", id)).at("node")); got != fmt.Sprintf(`{"__typename":"Message","chatRoom":{"name":"lobby"},"id":"%s","serial":"1","text":"hi"}`, id) {
		t.Errorf("message: %s", got)
	}
	other := c.home.AddRoomOn(room.Shard, "other")
	for name, id := range map[string]string{
		"a serial that is not there yet": messageID(room.ID, 2), "the last serial there can be": messageID(room.ID, math.MaxInt64),
		"a message of an empty room": messageID(other.ID, 1), "a message of an unknown room": messageID(unknownOn(c.home), 1),
	} {
		if r := c.ok(t, d, vars("id", id)); r.at("node") != nil {
			t.Errorf("%s: %s", name, r.raw)
		}
	}
	for _, bad := range []string{flip(fmt.Sprint(id)), messageID(room.ID, 0), messageID(room.ID, -1), cursorsOf(c.home, room)["1"]} {
		if r := c.do(t, d, vars("id", bad)); r.code() != "BAD_REQUEST" {
			t.Errorf("%q: %s", bad, r.raw)
		}
	}
	c.home.Lock(room.Shard)
	if r := c.do(t, d, vars("id", id)); r.code() != "SHARD_NOT_OWNED" {
		t.Errorf("message while locked: %s", r.raw)
	}
	c.ok(t, d, vars("id", room.ID))
}

func TestQuery_Message(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	c.send(t, room, "alice", "7", "hi")
	d := `query($id: ID!, $u: String!, $c: String!) { chatRoom(id: $id) { message(user: $u, clientId: $c) { text } } }`
	if r := c.ok(t, d, vars("id", room.ID, "u", "alice", "c", "7")); r.at("chatRoom", "message", "text") != "hi" {
		t.Errorf("%s", r.raw)
	}
	for _, other := range []string{"07", "7 ", " 7", "7.0", "", strings.Repeat("7", 9999)} {
		if r := c.ok(t, d, vars("id", room.ID, "u", "alice", "c", other)); r.at("chatRoom", "message") != nil {
			t.Errorf("%q: %s", other, r.raw)
		}
	}
}

func TestQuery_ChatRooms(t *testing.T) {
	c := newClient(domaintest.Config{})
	d := `query($first: Int, $after: String) { chatRooms(first: $first, after: $after) { edges { cursor node { serial: name } } pageInfo { hasPreviousPage hasNextPage startCursor endCursor } } }`
	if got := summary(c.ok(t, d, "").at("chatRooms")); got != "" {
		t.Errorf("empty: %q", got)
	}
	for i := range 5 {
		c.home.AddRoom(fmt.Sprint(i + 1))
	}
	c.home.LockAll()
	second := c.ok(t, d, `{"first": 2}`).at("chatRooms", "pageInfo", "endCursor")
	fifth := c.ok(t, d, `{}`).at("chatRooms", "pageInfo", "endCursor")
	for _, tc := range []struct {
		first, after any
		want         string
	}{
		{nil, nil, "1 2 3 4 5"}, {2, nil, "1 2 >"}, {5, nil, "1 2 3 4 5"}, {0, nil, ">"}, {2, second, "< 3 4 >"}, {3, second, "< 3 4 5"}, {2, fifth, "<"}, {0, second, "< >"}, {0, fifth, "<"},
	} {
		if got := summary(c.ok(t, d, vars("first", tc.first, "after", tc.after)).at("chatRooms")); got != tc.want {
			t.Errorf("first %v after %v: %q, want %q", tc.first, tc.after, got, tc.want)
		}
	}
	for name, bad := range map[string]struct {
		variables any
		code      string
	}{
		"more than the cap": {map[string]any{"first": 1001}, "BAD_REQUEST"},
		"negative":          {map[string]any{"first": -1}, "BAD_REQUEST"},
		"malformed":         {map[string]any{"after": "x"}, "BAD_REQUEST"},
		"another life":      {map[string]any{"after": domain.ListCursor{Home: uuid.New(), Serial: 1}.String()}, "CURSOR_OUT_OF_RANGE"},
		"past the end":      {map[string]any{"after": domain.ListCursor{Home: c.home.Home(), Serial: 9}.String()}, "CURSOR_OUT_OF_RANGE"},
	} {
		if r := c.do(t, d, jsonOf(bad.variables)); r.code() != bad.code {
			t.Errorf("%s: %s", name, r.raw)
		}
	}
}

const shardFields = `number state notOwned { shard state instance { id url } owner { instance { id url } version } progress { loaded target ratio } retryAfterMs }`

func TestQuery_Shards(t *testing.T) {
	c := newClient(domaintest.Config{Shards: 4, Instance: domain.Instance{ID: "a", URL: "http://a"}})
	b := c.home.Join(domain.Instance{ID: "b", URL: "http://b"})
	c.home.Move(1, b)
	c.home.Load(2, 9007199254740993, 9007199254740993)
	c.home.Lock(3)
	c.home.SetOwner(3, nil)
	got := jsonOf(c.ok(t, `{ shards { `+shardFields+` } }`, "").at("shards"))
	want := `[{"notOwned":null,"number":0,"state":"OPEN"},` +
		`{"notOwned":{"instance":{"id":"a","url":"http://a"},"owner":{"instance":{"id":"b","url":"http://b"},"version":"5"},"progress":null,"retryAfterMs":200,"shard":1,"state":"NOT_ASSIGNED"},"number":1,"state":"NOT_ASSIGNED"},` +
		`{"notOwned":{"instance":{"id":"a","url":"http://a"},"owner":{"instance":{"id":"a","url":"http://a"},"version":"3"},"progress":{"loaded":"9007199254740993","ratio":1,"target":"9007199254740993"},"retryAfterMs":200,"shard":2,"state":"LOADING"},"number":2,"state":"LOADING"},` +
		`{"notOwned":{"instance":{"id":"a","url":"http://a"},"owner":null,"progress":null,"retryAfterMs":200,"shard":3,"state":"LOCKED"},"number":3,"state":"LOCKED"}]`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
