// Package limitstest has documents that are meant to hurt, for the tests of whatever takes documents from strangers.
package limitstest

import (
	"fmt"
	"runtime"
	"strings"
	"time"
)

// What one attack may cost.
const (
	MaxTime   = 20 * time.Millisecond
	MaxBytes  = 10 << 20 // allocated
	MaxAnswer = 4 << 10  // bytes
)

// Allocated is the number of bytes that do allocates, together with whatever runs beside it.
func Allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Attacks are the known ones on parsers and validators, 400 KB where that makes them worse (CVE-2023-49559, gqlparser #303,
// gqlgen #3118, and cousins), for a schema with the shapes of chathome's. Goals for each: refused, or found valid, within
// MaxTime and MaxBytes, and what the client is told stays below MaxAnswer.
func Attacks() map[string]string {
	const size = 400 << 10
	fill := func(head, part, tail string) string {
		return head + strings.Repeat(part, (size-len(head)-len(tail))/len(part)) + tail
	}
	chain := func(n int, body string) string {
		var b strings.Builder
		b.WriteString("{...F0}")
		for i := range n {
			b.WriteString(" " + strings.NewReplacer("#", fmt.Sprint(i), "%", fmt.Sprint(i+1)).Replace(body))
		}
		fmt.Fprintf(&b, " fragment F%d on Query{__typename}", n)
		return b.String()
	}
	return map[string]string{
		"unknown directives":     fill("{__typename", " @aa", "}"),
		"aliases":                fill("{", "a:__typename ", "}"),
		"deep selections":        strings.Repeat("{a", 50_000) + strings.Repeat("}", 50_000),
		"deep lists":             "{a(b:" + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000) + ")}",
		"deep list types":        "query($a:" + strings.Repeat("[", 50_000) + "Int" + strings.Repeat("]", 50_000) + "){__typename}",
		"fragment cycle":         chain(60, "fragment F# on Query{...F% ...F0}"),
		"operations":             Repeat(10_000, "query Q%d{__typename} "),
		"one name":               "{" + strings.Repeat("a", size) + "}",
		"one string":             `{node(id:"` + strings.Repeat("a", size) + `"){id}}`,
		"one block string":       `{node(id:"""` + strings.Repeat("\n  a", size/4) + `"""){id}}`,
		"quotes":                 strings.Repeat(`"`, size),
		"comments":               strings.Repeat("#\n", size/2),
		"blanks":                 strings.Repeat(" ", size),
		"nothing but rubbish":    strings.Repeat("?", size),
		"same field":             "{" + strings.Repeat("__typename ", 990) + "}",
		"same field, below":      "{chatRoom(id:\"1\"){" + strings.Repeat("name ", 980) + "}}",
		"same field, inline":     "{chatRoom(id:\"1\"){" + strings.Repeat("...{name} ", 240) + "}}",
		"same field, spread":     "{chatRoom(id:\"1\"){" + strings.Repeat("...F ", 450) + "}} fragment F on ChatRoom{name name name}",
		"same field, fragments":  "{chatRoom(id:\"1\"){" + Repeat(60, "...F%d ") + "}}" + Repeat(60, " fragment F%d on ChatRoom{name name name name name}"),
		"same path":              "{chatRoom(id:\"1\"){" + strings.Repeat("messages{edges{cursor cursor cursor}edges{cursor cursor cursor}} ", 45) + "}}",
		"same path, fragments":   "{chatRoom(id:\"1\"){" + Repeat(48, "...F%d ") + "}}" + Repeat(48, " fragment F%d on ChatRoom{messages{edges{cursor}}}"),
		"same path, nested":      "{...A} fragment A on Query{" + strings.Repeat("chatRoom(id:\"1\"){...B} ", 15) + "} fragment B on ChatRoom{" + strings.Repeat("messages{...C} ", 15) + "} fragment C on MessageConnection{edges{cursor}}",
		"unknown fields":         "{chatRoom(id:\"1\"){" + Repeat(490, "x%d ") + "}}",
		"unknown fields, long":   "{chatRoom(id:\"1\"){" + Repeat(490, strings.Repeat("n", 120)+"%d ") + "}}",
		"same field in a field":  "{chatRoom(id:\"1\"){" + strings.Repeat("messages{edges{cursor}}", 120) + "}}",
		"same field, deep":       "{" + strings.Repeat("chatRoom(id:\"1\"){messages{edges{node{chatRoom{messages{edges{node{chatRoom{id}}}}}}}}} ", 19) + "}",
		"conflicts":              "{" + strings.Repeat("chatRoom(id:\"1\"){id} chatRoom(id:\"2\"){id} ", 10) + "}",
		"conflicts below":        "{chatRoom(id:\"1\"){" + Repeat(24, "a:messages(first:%d){edges{cursor}} ") + Repeat(24, "a:messages(first:%d){edges{cursor}} ") + "}}",
		"fragment pairs":         "{" + Repeat(90, "...F%d ") + "}" + Repeat(90, " fragment F%d on Query{...G ...H}") + " fragment G on Query{__typename} fragment H on Query{__typename}",
		"fragment chain":         chain(90, "fragment F# on Query{...F% __typename}"),
		"fragments doubling":     chain(80, "fragment F# on Query{...F% ...F%}"),
		"fragments nested twice": chain(40, "fragment F# on Query{node(id:1){...on Query{...F%} ...on Query{...F%}}}"),
		"overlap in fragments":   "{chatRoom(id:\"1\"){" + Repeat(60, "...F%d ") + "}}" + Repeat(60, " fragment F%d on ChatRoom{messages{edges{cursor}}}"),
		"overlap, nested":        nestedOverlap(14, 8),
		"object value":           "{node(id:{" + Repeat(300, "a%d:1 ") + "}){id}}",
		"same key":               "{node(id:{" + strings.Repeat("a:1 ", 300) + "}){id}}",
		"same argument":          "{node(" + strings.Repeat("id:1 ", 300) + "){id}}",
		"variables":              "query(" + Repeat(300, "$a%d:ID ") + "){__typename}",
		"variables, many uses":   "query(" + Repeat(60, "$a%d:ID ") + "){" + Repeat(19, "b%d:node(id:$a1){id}") + "}",
		"same variable":          "query(" + strings.Repeat("$a:ID ", 300) + "){__typename}",
		"operations, one name":   strings.Repeat("query Q{__typename} ", 190),
		"anonymous operations":   strings.Repeat("{__typename} ", 300),
		"ops times fragments":    Repeat(60, "query Q%d{...F0}") + Repeat(39, " fragment F%d on Query{...F39 ...F38 __typename}") + " fragment F39 on Query{__typename}",
		"introspection, nested":  "{__schema{types{fields{type{fields{type{fields{type{fields{name}}}}}}}}}}",
		"introspection, aliases": "{__schema{" + Repeat(40, "a%d:types{fields{args{type{ofType{name}}}}} ") + "}}",
		"escapes":                `{node(id:"` + strings.Repeat(`\u0041`, size/6) + `"){id}}`,
	}
}

// nestedOverlap makes the rule for overlapping fields compare the same pairs on many levels.
func nestedOverlap(depth, width int) string {
	inner := "id"
	for i := range depth / 4 {
		var b strings.Builder
		for range max(width-2*i, 2) {
			b.WriteString("messages{edges{node{chatRoom{" + inner + "}}}}")
		}
		inner = b.String()
	}
	return `{chatRoom(id:"1"){` + inner + `}}`
}

// Repeat writes format n times, with the numbers from 0.
func Repeat(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}
