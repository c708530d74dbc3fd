package graphqlhttp

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"

	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/limits"
)

func TestCache_StaysWithinItsBytes(t *testing.T) {
	c := newCache[string](10_000)
	for i := range 1000 {
		c.add(fmt.Sprint(i), strings.Repeat("x", i%900), i%900)
		if c.size() > 10_000 {
			t.Fatalf("%d bytes after %d entries", c.size(), i)
		}
	}
	if _, ok := c.get("999"); !ok {
		t.Error("the newest entry is gone")
	}
	if _, ok := c.get("0"); ok {
		t.Error("the oldest entry is still there")
	}
}

func TestCache_CountsAnEntryThatIsReplacedOnce(t *testing.T) {
	c := newCache[string](10_000)
	for range 100 {
		c.add("same", "value", 500)
	}
	if want := 500 + len("same") + entryBytes; c.size() != want {
		t.Errorf("%d bytes, want %d", c.size(), want)
	}
}

func TestCache_DoesNotKeepWhatWouldPushOutEverythingElse(t *testing.T) {
	c := newCache[string](10_000)
	c.add("small", "", 100)
	c.add("large", "", 5000)
	if _, ok := c.get("large"); ok {
		t.Error("kept")
	}
	if _, ok := c.get("small"); !ok {
		t.Error("the small one was pushed out")
	}
	nothing := newCache[string](0)
	nothing.add("a", "", 0)
	if _, ok := nothing.get("a"); ok {
		t.Error("a cache of no bytes kept something")
	}
}

// The bound of the document cache is only as good as the estimate of an entry.
func TestDocumentBytes_AreNotUnderestimated(t *testing.T) {
	schema := graph.New(domaintest.New(domaintest.Config{})).Schema()
	for name, query := range map[string]string{
		"small":     `{__typename}`,
		"mutation":  `mutation($input: SendMessageInput!) { sendMessage(input: $input) { __typename ... on SendMessageSuccess { duplicate message { id serial sentAt text } } ... on UserError { reason } } }`,
		"fields":    "{" + strings.Repeat(" __typename", 490) + "}",
		"arguments": "{" + strings.Repeat(` node(id: "1") { id }`, 90) + "}",
		"variables": "query(" + strings.Repeat("$a: ID = \"1\" ", 140) + "){__typename}",
		"comments":  strings.Repeat("#\n", 900) + "{__typename}",
		"fragments": "{__typename}" + strings.Repeat(" fragment F on Query{__typename}", 120),
	} {
		const n = 20
		docs := make([]*ast.QueryDocument, n)
		before := heap()
		for i := range docs {
			doc, err := parser.ParseQuery(&ast.Source{Input: strings.Clone(query)})
			if err != nil {
				t.Fatal(err)
			}
			validator.ValidateWithRules(schema, doc, nil)
			docs[i] = doc
		}
		got := (heap() - before) / n
		runtime.KeepAlive(docs)
		tokens, _ := limits.Limits{}.Scan(query)
		if estimate := documentBytes(len(query), tokens); got > estimate {
			t.Errorf("%s: %d bytes for %d tokens, estimated %d", name, got, tokens, estimate)
		}
	}
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
