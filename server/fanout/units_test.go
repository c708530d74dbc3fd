package fanout

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"pgregory.net/rapid"

	"github.com/chathome/chathome/graph"
)

func TestRing_Find(t *testing.T) {
	for _, tc := range []struct {
		name             string
		e                entry
		pos, joined, tip int64
		want             bool
	}{
		{"the position", entry{from: 5, to: 9, atTip: true}, 5, 5, 9, true},
		{"another position", entry{from: 4, to: 9, atTip: true}, 5, 5, 9, false},
		{"live, for one who joined when more was there", entry{from: 5, to: 9, atTip: true}, 5, 10, 10, false},
		{"live, for one who joined at its end", entry{from: 5, to: 9, atTip: true}, 5, 9, 10, true},
		{"a page of the replay, however late one joined", entry{from: 0, to: 64}, 0, 900, 1000, true},
		{"less than a quarter of the way", entry{from: 0, to: 2, atTip: true}, 0, 0, 9, false},
		{"a quarter of the way", entry{from: 0, to: 2, atTip: true}, 0, 0, 8, true},
		{"an empty first event", entry{from: 7, to: 7, atTip: true}, 7, 7, 7, true},
		{"an empty first event when more is there", entry{from: 7, to: 7, atTip: true}, 7, 7, 8, false},
	} {
		r := ring{entries: []*entry{&tc.e}}
		if got := r.find(serial(tc.pos), serial(tc.joined), serial(tc.tip)) != nil; got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

func TestRing_BoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			RingEvents:     rapid.IntRange(1, 5).Draw(t, "events"),
			RingBytes:      rapid.IntRange(1, 100).Draw(t, "bytes"),
			TotalRingBytes: int64(rapid.IntRange(1, 200).Draw(t, "total")),
		}
		var total atomic.Int64
		rings := []*ring{{total: &total}, {total: &total}}
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			r := rings[rapid.IntRange(0, 1).Draw(t, "ring")]
			e := &entry{from: serial(rapid.Int64Range(0, 20).Draw(t, "from")), Event: Event{Payload: make([]byte, rapid.IntRange(0, 120).Draw(t, "size"))}}
			r.add(e, &cfg)
			if r.entries[len(r.entries)-1] != e {
				t.Fatal("the newest is not kept")
			}
			if n := len(r.entries); n > 1 && (n > cfg.RingEvents || r.bytes > cfg.RingBytes || total.Load() > cfg.TotalRingBytes) {
				t.Fatalf("%d entries, %d bytes, %d in total", n, r.bytes, total.Load())
			}
			sum := 0
			for _, r := range rings {
				for _, e := range r.entries {
					sum += len(e.Payload)
				}
			}
			if int64(sum) != total.Load() {
				t.Fatalf("%d bytes counted, %d there", total.Load(), sum)
			}
		}
		rings[0].clear()
		rings[1].clear()
		if total.Load() != 0 {
			t.Fatalf("%d bytes counted of nothing", total.Load())
		}
	})
}

// Whatever was built before, a frame is header, prefix, payload and suffix, and Rest is its end.
func TestBuilder_PatchedFramesEqualNewOnes(t *testing.T) {
	layouts := []*Layout{
		{Header: func(dst []byte, n int) []byte { return append(strconv.AppendInt(dst, int64(n), 10), ':') }, Suffix: []byte("}")},
		{Suffix: []byte("\n\n")},
	}
	rapid.Check(t, func(t *rapid.T) {
		events := make([]*Event, 3)
		for i := range events {
			events[i] = &Event{Payload: []byte(strings.Repeat(string(rune('a'+i)), rapid.SampledFrom([]int{0, 1, 10, 1000}).Draw(t, "size")))}
		}
		var b Builder
		for range 30 {
			l := rapid.SampledFrom(layouts).Draw(t, "layout")
			e := rapid.SampledFrom(events).Draw(t, "event")
			prefix := []byte(rapid.SampledFrom([]string{"", "x", "y", "id-1", "id-2"}).Draw(t, "prefix"))
			want := fmt.Sprintf("%s%s%s", prefix, e.Payload, l.Suffix)
			if l.Header != nil {
				want = fmt.Sprintf("%d:%s", len(want), want)
			}
			f := b.Build(l, prefix, e)
			if string(f.Bytes) != want {
				t.Fatalf("got %q, want %q", f.Bytes, want)
			}
			n := rapid.IntRange(0, len(want)).Draw(t, "n")
			if rest := bytes.Join(f.Rest(n), nil); string(rest) != want[n:] {
				t.Fatalf("rest behind %d: %q, want %q", n, rest, want[n:])
			}
		}
	})
}

func TestGroupKey(t *testing.T) {
	h := newHouse(t, Config{})
	type op struct {
		document string
		viewer   string
		vars     []any
	}
	sub := func(args, selection string) string {
		vars := "$room: ID!"
		for _, v := range [][2]string{{"$c", "String"}, {"$n", "Int"}, {"$w", "Boolean = true"}} {
			if strings.Contains(args+selection, v[0]) {
				vars += ", " + v[0] + ": " + v[1]
			}
		}
		return "subscription S(" + vars + ") { messages(chatRoomId: $room" + args + ") { " + selection + " } }"
	}
	const edges = "edges { node { id @include(if: $w) text } }"
	cursor := h.cursorAt(0)
	for _, tc := range []struct {
		name   string
		a, b   op
		shared bool
	}{
		{"the same", op{sub("", edges), "", nil}, op{sub("", edges), "", nil}, true},
		{"another start", op{sub(", after: $c", edges), "", []any{"c", cursor}}, op{sub(", after: $c", edges), "", nil}, true},
		{"after and last", op{sub(", after: $c, last: $n", edges), "", []any{"c", cursor}}, op{sub(", after: $c, last: $n", edges), "", []any{"n", 3}}, true},
		{"another selection", op{sub("", edges), "", nil}, op{sub("", "live"), "", nil}, false},
		{"another value of @include", op{sub("", edges), "", []any{"w", false}}, op{sub("", edges), "", nil}, false},
		{"a default and the same value", op{sub("", edges), "", []any{"w", true}}, op{sub("", edges), "", nil}, true},
		{"another viewer, whom no field depends on", op{sub("", edges), "alice", nil}, op{sub("", edges), "bob", nil}, true},
		{"a read through the gate", op{sub("", "edges { node { chatRoom { messages(first: 1) { edges { cursor } } } } }"), "", nil}, op{sub("", "edges { node { chatRoom { messages(first: 1) { edges { cursor } } } } }"), "", nil}, false},
		{"a room's name", op{sub("", "edges { node { __typename chatRoom { name shard createdAt id } } }"), "", nil}, op{sub("", "edges { node { __typename chatRoom { name shard createdAt id } } }"), "", nil}, true},
		{"the state of shards", op{"subscription { shards { number } }", "", nil}, op{"subscription { shards { number } }", "", nil}, false},
		{"the room list", op{"subscription { chatRooms { edges { node { name } } } }", "", nil}, op{"subscription { chatRooms { edges { node { name } } } }", "", nil}, true},
		{"in fragments", op{sub("", "...F") + " fragment F on MessageBatch { edges { ...E } } fragment E on MessageEdge { cursor }", "", nil}, op{sub("", "...F") + " fragment F on MessageBatch { edges { ...E } } fragment E on MessageEdge { cursor }", "", nil}, true},
		{"a gate read in a fragment", op{sub("", "...F") + " fragment F on MessageBatch { edges { node { chatRoom { message(user: \"a\", clientId: \"b\") { id } } } } }", "", nil}, op{sub("", "...F") + " fragment F on MessageBatch { edges { node { chatRoom { message(user: \"a\", clientId: \"b\") { id } } } } }", "", nil}, false},
	} {
		key := func(o op) (string, bool) {
			c, err := operation(context.Background(), h.exec, o.document, h.room, o.vars...)
			if err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			return groupKey(c, o.viewer, h.hub.cfg.Classify)
		}
		a, okA := key(tc.a)
		b, okB := key(tc.b)
		if got := okA && okB && a == b; got != tc.shared {
			t.Errorf("%s: shared %v, want %v\n%v %s\n%v %s", tc.name, got, tc.shared, okA, a, okB, b)
		}
	}
}

// A cursor that is used anywhere else may show in the bytes.
func TestGroupKey_CursorUsedTwiceStaysInTheKey(t *testing.T) {
	h := newHouse(t, Config{Classify: func(*ast.Field) Class { return Immutable }})
	h.home.PostN(h.room.ID, 2)
	const document = `subscription S($room: ID!, $c: String) { messages(chatRoomId: $room, after: $c) { edges { node { chatRoom { messages(first: 1, after: $c) { edges { cursor } } } } } } }`
	var keys [2]string
	for i := range keys {
		c, err := operation(context.Background(), h.exec, document, h.room, "c", h.cursorAt(serial(int64(i))))
		if err != nil {
			t.Fatal(err)
		}
		keys[i], _ = groupKey(c, "", h.hub.cfg.Classify)
	}
	if keys[0] == keys[1] || keys[0] == "" {
		t.Errorf("keys %q", keys)
	}
}

func TestGroupKey_ViewerIsInTheKeyWhereAFieldDependsOnIt(t *testing.T) {
	h := newHouse(t, Config{Classify: func(f *ast.Field) Class {
		if f.Name == "user" {
			return PerViewer
		}
		return Immutable
	}})
	key := func(selection, viewer string) string {
		c, err := operation(context.Background(), h.exec, `subscription S($room: ID!) { messages(chatRoomId: $room) { edges { node { `+selection+` } } } }`, h.room)
		if err != nil {
			t.Fatal(err)
		}
		k, ok := groupKey(c, viewer, h.hub.cfg.Classify)
		if !ok {
			t.Fatal("not shared")
		}
		return k
	}
	if key("user", "alice") == key("user", "bob") {
		t.Error("two viewers share a field that depends on who asks")
	}
	if key("text", "alice") != key("text", "bob") {
		t.Error("two viewers do not share a field that is the same for both")
	}
}

// Every field below a stream's root is either known as immutable or is one of those that are not.
func TestImmutable_KnowsEveryFieldOfTheSchema(t *testing.T) {
	changing := map[string]bool{"ChatRoom.message": true, "ChatRoom.messages": true}
	schema := graph.New(newHouse(t, Config{}).home).Schema()
	for _, name := range []string{"MessageBatch", "MessageEdge", "Message", "ChatRoom", "ChatRoomBatch", "ChatRoomEdge"} {
		for _, f := range schema.Types[name].Fields {
			got := graph.Immutable(&ast.Field{Name: f.Name, ObjectDefinition: schema.Types[name]})
			if got == changing[name+"."+f.Name] {
				t.Errorf("%s.%s: immutable %v", name, f.Name, got)
			}
		}
	}
}
