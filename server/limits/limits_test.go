package limits

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"

	"github.com/chathome/chathome/server/limits/limitstest"
)

// Like chathome's schema, with the shapes that matter here.
const sdl = `
type Query {
  chatRoom(id: ID!): ChatRoom
  chatRooms(first: Int, after: String): ChatRoomConnection
  node(id: ID!): Node
  shards: [Shard!]
}
interface Node { id: ID! }
type Shard { number: Int! chatRooms(first: Int): ChatRoomConnection }
type ChatRoom implements Node { id: ID! name: String! messages(first: Int, last: Int): MessageConnection }
type Message implements Node { id: ID! text: String! user: String! chatRoom: ChatRoom! }
type PageInfo { hasNextPage: Boolean! }
type ChatRoomConnection { edges: [ChatRoomEdge!]! pageInfo: PageInfo! }
type ChatRoomEdge { cursor: String! node: ChatRoom! }
type MessageConnection { edges: [MessageEdge!]! pageInfo: PageInfo! }
type MessageEdge { cursor: String! node: Message! }
type Subscription { messages(chatRoomId: ID!, after: String, last: Int): MessageBatch }
type MessageBatch { edges: [MessageEdge!]! endCursor: String! }
`

func load(t testing.TB) *ast.Schema {
	t.Helper()
	s, err := gqlparser.LoadSchema(&ast.Source{Input: sdl})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// check runs all stages as the server does.
func check(l Limits, schema *ast.Schema, document string, vars map[string]any) (gqlerror.List, error) {
	if _, err := l.Scan(document); err != nil {
		return nil, err
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: document}, l.Tokens)
	if err != nil {
		var e *gqlerror.Error
		errors.As(err, &e)
		return CapErrors(gqlerror.List{e}), nil
	}
	if err := l.Shape(doc); err != nil {
		return nil, err
	}
	if list := validator.ValidateWithRules(schema, doc, nil); len(list) > 0 {
		return CapErrors(list), nil
	}
	if len(doc.Operations) == 0 {
		return nil, nil
	}
	return nil, l.CheckCost(NewSchema(schema), doc.Operations[0], vars)
}

func TestLimits_SayWhatThereIsTooMuchOf(t *testing.T) {
	schema := load(t)
	nest := func(n int) string {
		return "{" + strings.Repeat("node(id:\"1\"){... on Message{chatRoom{... on Node{", n) + "id" + strings.Repeat("}}}}", n) + "}"
	}
	doubling := func(n int) string {
		var b strings.Builder
		b.WriteString("{ chatRoom(id: \"1\") { ...F0 } }")
		for i := range n {
			fmt.Fprintf(&b, " fragment F%d on ChatRoom { a: messages { edges { node { chatRoom { ...F%d } } } } b: messages { edges { node { chatRoom { ...F%d } } } } }", i, i+1, i+1)
		}
		fmt.Fprintf(&b, " fragment F%d on ChatRoom { name }", n)
		return b.String()
	}
	wide := func(n int) string {
		var b strings.Builder
		b.WriteString("{ chatRoom(id: \"1\") { ...F0 } }")
		for i := range n {
			fmt.Fprintf(&b, " fragment F%d on ChatRoom { ...F%d ...F%d }", i, i+1, i+1)
		}
		fmt.Fprintf(&b, " fragment F%d on ChatRoom { name }", n)
		return b.String()
	}
	tests := []struct {
		name     string
		document string
		vars     map[string]any
		want     string // in the error; empty: allowed
	}{
		{"plain", `{ chatRoom(id: "1") { name } }`, nil, ""},
		{"tokens", "{" + strings.Repeat(" __typename", 1000) + "}", nil, "1000 tokens"},
		{"comments are tokens", strings.Repeat("#x\n", 1001) + "{__typename}", nil, "1000 tokens"},
		{"commas are not", "{__typename" + strings.Repeat(",", 50_000) + "}", nil, ""},
		{"long name", "{" + strings.Repeat("a", 129) + "}", nil, "128 characters in one name"},
		{"long alias", "{" + strings.Repeat("a", 129) + ":__typename}", nil, "128 characters in one name"},
		{"brackets", `{ node(id: ` + strings.Repeat("[", 41) + "1" + strings.Repeat("]", 41) + `) {id} }`, nil, "40 levels of brackets"},
		{"depth", nest(8), nil, "15 levels of fields"},
		{"depth by fragments", doubling(5), nil, "15 levels of fields"},
		{"fields by doubling fragments", wide(20), nil, "2000 fields, fragments expanded"},
		{"aliases", "{" + limitstest.Repeat(60, `a%d:__typename `) + "}", nil, "20 root fields"},
		{"aliases below", `{ chatRoom(id:"1") {` + limitstest.Repeat(51, `a%d:name `) + "} }", nil, "50 aliases"},
		{"root fields by fragment", "{ ...F ...F } fragment F on Query {" + limitstest.Repeat(11, `a%d:__typename `) + "}", nil, "20 root fields"},
		{"repeats", `{ chatRoom(id:"1") {` + strings.Repeat("name ", 51) + "} }", nil, "50 fields for one place"},
		{"repeats below repeats", `{ chatRoom(id:"1") {` + strings.Repeat("messages { edges { cursor cursor } } ", 26) + "} }", nil, "50 fields for one place"},
		{"repeats by fragments", `{ chatRoom(id:"1") {` + strings.Repeat("...F ", 26) + "} } fragment F on ChatRoom { name ... { name } }", nil, "50 fields for one place"},
		{"fragments of many components", `{ chatRoom(id:"1") {` + limitstest.Repeat(30, "...F%d ") + "} }" + limitstest.Repeat(30, " fragment F%d on ChatRoom { id name }"), nil, ""},
		{"directives", "{ __typename " + strings.Repeat("@skip(if:false) ", 51) + "}", nil, "50 directives"},
		{"cycle", "{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }", nil, "spreads itself"},
		{"cycle that nothing spreads", "{ __typename } fragment A on Query { ...A }", nil, "spreads itself"},
		{"a full page", `{ chatRoom(id:"1") { messages(first: 1000) { edges { cursor node { id text user chatRoom { id name } } } pageInfo { hasNextPage } } } }`, nil, ""},
		{"page in a page", `{ chatRooms(first: 1000) { edges { node { messages(last: 1000) { edges { node { text } } } } } } }`, nil, "cost"},
		{"page in a page by variable", `query($n: Int) { chatRooms(first: $n) { edges { node { messages(last: $n) { edges { node { text } } } } } } }`, map[string]any{"n": int64(1000)}, "cost"},
		{"the same, small", `query($n: Int) { chatRooms(first: $n) { edges { node { messages(last: $n) { edges { node { text } } } } } } }`, map[string]any{"n": int64(10)}, ""},
		{"default pages", `{ chatRooms { edges { node { messages { edges { node { text user id chatRoom { name id messages { edges { cursor } } } } } } } } } }`, nil, "cost"},
		{"more than a page: for the resolver to refuse", `{ chatRooms(first: 2000000000) { edges { cursor } } }`, nil, ""},
		{"as many, by variable", `query($n: Int) { chatRooms(first: $n) { edges { node { messages(last: $n) { edges { cursor } } } } } }`, map[string]any{"n": json.Number("99999999999999999999")}, "cost"},
		{"pages below a list", `{ shards { chatRooms(first: 1000) { edges { cursor } } } }`, nil, ""},
		{"pages below a list, more fields", `{ shards { chatRooms(first: 1000) { edges { cursor node { name id } } } } }`, nil, "cost"}, // 10 × 1000 × 4
		{"cost by fragments", "{ ...A } fragment A on Query { chatRooms(first: 1000) { ...B } } fragment B on ChatRoomConnection { edges { node { messages(first: 1000) { ...C } } } } fragment C on MessageConnection { edges { cursor } }", nil, "cost"},
		{"cost by fragments with pages of two sizes", "{ a: chatRooms(first: 1) { ...B } chatRooms(first: 1000) { ...B } } fragment B on ChatRoomConnection { edges { node { messages(first: 50) { edges { cursor } } } } }", nil, "cost"},
		{"what is no list is made once", `{ chatRooms(first: 1000) { edges { cursor } a: pageInfo { ...P } b: pageInfo { ...P } } } fragment P on PageInfo { ` + limitstest.Repeat(30, "a%d: hasNextPage ") + ` }`, nil, ""},
		{"introspection", introspectionQuery, nil, ""},
		{"introspection twice", strings.Replace(introspectionQuery, "__schema {", "a: __schema { types { ...FullType } } b: __schema { types { ...FullType } } c: __schema { types { ...FullType } } d: __schema { types { ...FullType x: fields { args { type { fields { name args { name type { name } } } } } } } } __schema {", 1), nil, "cost"},
		{"an escaped backslash", `{ node(id: "\\ud800") { id } }`, nil, ""},
		{"block string", `{ node(id: """\ud800 "x" \""" {{{""") { id } }`, nil, ""},
		{"string with brackets", `{ node(id: "` + strings.Repeat("{", 100) + `") { id } }`, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := check(Default(), schema, tt.document, tt.vars)
			switch {
			case len(list) > 0:
				t.Fatalf("not valid: %v", list)
			case tt.want == "" && err != nil:
				t.Fatalf("refused: %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Fatalf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLimits_ZeroMeansNoLimit(t *testing.T) {
	if list, err := check(Limits{}, load(t), "{"+strings.Repeat(" __typename", 3000)+"}", nil); err != nil || len(list) > 0 {
		t.Fatal(list, err)
	}
}

// Whatever the document, refusing it, or finding it valid, takes little memory and few words. The time it takes is in
// BenchmarkAttacks.
func TestLimits_AttacksAreRefusedCheaply(t *testing.T) {
	schema := load(t)
	for name, document := range limitstest.Attacks() {
		t.Run(name, func(t *testing.T) {
			var list gqlerror.List
			var err error
			allocated := limitstest.Allocated(func() { list, err = check(Default(), schema, document, nil) })
			answer, _ := json.Marshal(list)
			size := len(answer)
			if err != nil {
				size = len(err.Error())
			}
			if allocated > limitstest.MaxBytes {
				t.Errorf("allocated %d bytes for a document of %d", allocated, len(document))
			}
			if size > limitstest.MaxAnswer {
				t.Errorf("answer of %d bytes", size)
			}
		})
	}
}

// BenchmarkAttacks fails when one of the attacks takes longer than it may.
func BenchmarkAttacks(b *testing.B) {
	schema := load(b)
	for name, document := range limitstest.Attacks() {
		b.Run(strings.NewReplacer(" ", "-", ",", "").Replace(name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = check(Default(), schema, document, nil)
			}
			if one := b.Elapsed() / time.Duration(b.N); one > limitstest.MaxTime {
				b.Errorf("%v for one", one)
			}
		})
	}
}

func FuzzScan(f *testing.F) {
	for _, document := range limitstest.Attacks() {
		f.Add(document[:min(len(document), 1000)])
	}
	f.Add(`{ node(id: "\\ud800") { id } }`)
	f.Add(introspectionQuery)
	l := Default()
	schema, err := gqlparser.LoadSchema(&ast.Source{Input: sdl})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, document string) {
		list, _ := check(l, schema, document, nil)
		if answer, _ := json.Marshal(list); len(answer) > 4<<10 {
			t.Errorf("answer of %d bytes", len(answer))
		}
	})
}
