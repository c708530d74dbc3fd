package graphqlhttp_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/server/auth"
	"github.com/chathome/chathome/server/graphqlhttp"
)

func persisted(hash string, version any, query string) string {
	body := map[string]any{"extensions": map[string]any{"persistedQuery": map[string]any{"version": version, "sha256Hash": hash}}}
	if query != "" {
		body["query"] = query
	}
	b, _ := json.Marshal(body)
	return string(b)
}

func TestPersistedQueries(t *testing.T) {
	h := newHandler(t)
	const query = "{__typename}"
	sum := sha256.Sum256([]byte(query))
	hash := hex.EncodeToString(sum[:])
	step := func(what, body, want string) {
		t.Helper()
		if w := do(h, request{body: body}); !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %s, want %s", what, w.Body, want)
		}
	}
	step("unknown", persisted(hash, 1, ""), "PersistedQueryNotFound")
	step("wrong hash", persisted(strings.Repeat("0", 64), 1, query), "not the hash")
	step("no hash", persisted("", 1, query), "64 hexadecimal digits")
	step("wrong version", persisted(hash, 2, query), "version 1")
	step("no object", `{"query":"{__typename}","extensions":{"persistedQuery":[]}}`, "must be an object")
	step("still unknown", persisted(hash, 1, ""), "PersistedQueryNotFound")
	step("both", persisted(hash, 1, query), `"__typename":"Query"`)
	step("known", persisted(hash, 1, ""), `"__typename":"Query"`)
	get := "?extensions=" + url.QueryEscape(`{"persistedQuery":{"version":1,"sha256Hash":"`+hash+`"}}`)
	if w := do(h, request{method: "GET", url: get}); !strings.Contains(w.Body.String(), `"__typename":"Query"`) {
		t.Errorf("by GET: %s", w.Body)
	}

	invalid := "{nothing}"
	sum = sha256.Sum256([]byte(invalid))
	hash = hex.EncodeToString(sum[:])
	step("not valid", persisted(hash, 1, invalid), "BAD_REQUEST")
	step("not kept", persisted(hash, 1, ""), "PersistedQueryNotFound")

	mutation := "mutation{__typename}"
	sum = sha256.Sum256([]byte(mutation))
	hash = hex.EncodeToString(sum[:])
	step("a mutation", persisted(hash, 1, mutation), `"__typename":"Mutation"`)
	get = "?extensions=" + url.QueryEscape(`{"persistedQuery":{"version":1,"sha256Hash":"`+hash+`"}}`)
	if w := do(h, request{method: "GET", url: get}); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("a persisted mutation by GET: %d", w.Code)
	}
}

func TestExecutor_IntrospectionCanBeSwitchedOff(t *testing.T) {
	h := newHandler(t, func(c *graphqlhttp.Config) { c.Introspection = false })
	for _, query := range []string{
		"{__schema{types{name}}}", `{__type(name:\"Query\"){name}}`,
		"{...F} fragment F on Query{...on Query{__schema{types{name}}}}",
		"subscription{__schema{types{name}}}",
		"query A{__typename} query B{__schema{types{name}}}",
	} {
		w := do(h, request{body: `{"query":"` + query + `","operationName":"A"}`})
		if !strings.Contains(w.Body.String(), "introspection is switched off") {
			t.Errorf("%s: %s", query, w.Body)
		}
	}
	if w := do(h, request{body: typename}); !strings.Contains(w.Body.String(), "Query") {
		t.Errorf("__typename: %s", w.Body)
	}
	for _, query := range []string{"{chatRoms{edges{cursor}}}", "{shards}", "{nod(id:1){id}}", "{node(idd:1){id}}", "{...on Qery{__typename}}", "query($a:Strin){node(id:$a){id}}"} {
		if w := do(h, request{body: `{"query":"` + query + `"}`}); strings.Contains(w.Body.String(), "Did you mean") {
			t.Errorf("%s: names are told: %s", query, w.Body)
		}
	}
}

func TestExecutor_OneDocumentServesManyAtOnce(t *testing.T) {
	h := newHandler(t)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for j := range 50 {
				n := i*50 + j
				body := fmt.Sprintf(`{"query":"query Q($n:Int){chatRooms(first:$n){pageInfo{hasNextPage}}}","operationName":"Q","variables":{"n":%d}}`, n)
				w := do(h, request{body: body})
				if want := n <= 1000; strings.Contains(w.Body.String(), `"hasNextPage":false`) != want {
					t.Errorf("%d: %s", n, w.Body)
				}
			}
		})
	}
	all.Wait()
}

func TestExecutor_CostCountsVariablesOfEachRequest(t *testing.T) {
	h := newHandler(t)
	ask := func(n int) string {
		return do(h, request{body: fmt.Sprintf(`{"query":"query($n:Int){chatRooms(first:$n){edges{node{messages(first:$n){edges{cursor}}}}}}","variables":{"n":%d}}`, n)}).Body.String()
	}
	if got := ask(10); strings.Contains(got, "costs") {
		t.Errorf("10: %s", got)
	}
	if got := ask(1000); !strings.Contains(got, "costs more than 30000") {
		t.Errorf("1000: %s", got)
	}
	if got := ask(10); strings.Contains(got, "costs") {
		t.Errorf("10 again: %s", got)
	}
}

// stub is a schema whose resolvers are one function.
func stub(t *testing.T, exec func(ctx context.Context) graphql.ResponseHandler) graphql.ExecutableSchema {
	t.Helper()
	schema, err := gqlparser.LoadSchema(&ast.Source{Input: `type Query { name: String } type Mutation { name: String } type Subscription { name: String }`})
	if err != nil {
		t.Fatal(err)
	}
	return &graphql.ExecutableSchemaMock{
		ExecFunc:       exec,
		SchemaFunc:     func() *ast.Schema { return schema },
		ComplexityFunc: func(context.Context, string, string, int, map[string]any) (int, bool) { return 0, false },
	}
}

func TestExecutor_GivesQueriesADeadline(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		h := newHandler(t, func(c *graphqlhttp.Config) {
			c.Timeout = 3 * time.Second
			c.Extensions = nil
			c.Schema = stub(t, func(ctx context.Context) graphql.ResponseHandler {
				return func(ctx context.Context) *graphql.Response {
					<-ctx.Done()
					graphql.AddError(ctx, ctx.Err())
					return &graphql.Response{Data: []byte("null")}
				}
			})
		})
		start := time.Now()
		w := do(h, request{body: `{"query":"{name}"}`})
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("answered after %v", got)
		}
		if !strings.Contains(w.Body.String(), "OUTCOME_UNKNOWN") || w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}

func TestHandler_APanicOfATransportIsMasked(t *testing.T) {
	h := newHandler(t, func(c *graphqlhttp.Config) {
		c.Extensions = nil
		c.Schema = stub(t, func(context.Context) graphql.ResponseHandler { panic("secret") })
	})
	w := do(h, request{body: `{"query":"{name}"}`})
	if w.Code != 500 || strings.Contains(w.Body.String(), "secret") || !strings.Contains(w.Body.String(), "INTERNAL") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestHandler_AuthenticatesEachRequest(t *testing.T) {
	var seen string
	h := newHandler(t, func(c *graphqlhttp.Config) {
		c.Authenticate = func(_ context.Context, h http.Header, _ json.RawMessage) (string, time.Time, error) {
			if h.Get("Authorization") == "Bearer old" {
				return "alice", time.Now(), nil
			}
			if h.Get("Authorization") != "Bearer right" {
				return "", time.Time{}, errors.New("secret reason")
			}
			return "alice", time.Time{}, nil
		}
		c.Extensions = nil
		c.Schema = stub(t, func(ctx context.Context) graphql.ResponseHandler {
			seen = auth.Viewer(ctx)
			return graphql.OneShot(&graphql.Response{Data: []byte(`{"name":null}`)})
		})
	})
	for _, token := range []string{"", "Bearer wrong", "Bearer old"} {
		w := do(h, request{body: `{"query":"{name}"}`, headers: map[string]string{"Authorization": token}})
		if w.Code != 401 || !strings.Contains(w.Body.String(), "UNAUTHENTICATED") || strings.Contains(w.Body.String(), "secret") || seen != "" {
			t.Errorf("%q: %d %s", token, w.Code, w.Body)
		}
	}
	w := do(h, request{body: `{"query":"{name}"}`, headers: map[string]string{"Authorization": "Bearer right"}})
	if w.Code != 200 || seen != "alice" {
		t.Errorf("%d %s, viewer %q", w.Code, w.Body, seen)
	}
}

func FuzzRequest(f *testing.F) {
	h := newHandler(f)
	for _, body := range []string{typename, `{"query":"{","variables":{"a":"\ud800"}}`, "[]", "null", `{"query":1}`, "\xff", persisted(strings.Repeat("0", 64), 1, ""), `{"query":"subscription{shards{number}}"}`} {
		f.Add("POST", "application/json", "*/*", "", "", body)
	}
	f.Add("GET", "", "application/graphql-response+json;q=0.5", "", "query={__typename}&variables={}", "")
	f.Add("POST", "application/json; charset=utf-8", "text/event-stream", "", "", typename)
	const follow = `{"query":"subscription($a:String){...F} fragment F on Subscription{chatRooms(after:$a){edges{cursor}endCursor}}","variables":{"a":null}}`
	f.Add("POST", "application/json", "text/event-stream", "17", "", follow)
	f.Fuzz(func(t *testing.T, method, content, accept, lastEventID, query, body string) {
		r, err := http.NewRequest(method, "http://x/graphql", strings.NewReader(body))
		if err != nil || strings.ContainsAny(content+accept+lastEventID, "\r\n\x00") {
			t.Skip()
		}
		r.URL.RawQuery = query
		r.Header.Set("Content-Type", content)
		r.Header.Set("Accept", accept)
		r.Header.Set("Last-Event-ID", lastEventID)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // a stream may be asked for
		defer cancel()
		w := serveRecorded(h, r.WithContext(ctx))
		if w.Code < 200 || w.Code >= 500 {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		switch kind := w.Header().Get("Content-Type"); {
		case strings.Contains(kind, "json") && !json.Valid(w.Body.Bytes()):
			t.Errorf("not JSON: %s", w.Body)
		case strings.HasPrefix(kind, "text/event-stream"):
			for line := range strings.SplitSeq(w.Body.String(), "\n") {
				name, _, _ := strings.Cut(line, ":")
				if name != "" && name != "event" && name != "data" && name != "id" {
					t.Errorf("line %q", line)
				}
			}
		}
	})
}
