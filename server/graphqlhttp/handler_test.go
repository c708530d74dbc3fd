package graphqlhttp_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/graphqlhttp"
	"github.com/chathome/chathome/server/sse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newHandler serves the real schema over a home in memory.
func newHandler(t testing.TB, change ...func(*graphqlhttp.Config)) *graphqlhttp.Handler {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	present := graph.NewErrorPresenter(log)
	cfg := graphqlhttp.Config{
		Schema:        graph.New(domaintest.New(domaintest.Config{})),
		Present:       present,
		Recover:       graph.Recover,
		Extensions:    graph.Extensions(present),
		Streams:       sse.New(sse.Config{Hub: fanout.New(fanout.Config{})}),
		Introspection: true,
		Log:           log,
	}
	for _, f := range change {
		f(&cfg)
	}
	h, err := graphqlhttp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

type request struct {
	method  string // empty: POST
	url     string // behind /graphql
	headers map[string]string
	body    string
}

func do(h http.Handler, q request) *httptest.ResponseRecorder {
	if q.method == "" {
		q.method = http.MethodPost
	}
	r := httptest.NewRequest(q.method, "/graphql"+q.url, strings.NewReader(q.body))
	if q.method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range q.headers {
		if value == "" {
			r.Header.Del(name)
		} else {
			r.Header.Set(name, value)
		}
	}
	return serveRecorded(h, r)
}

func serveRecorded(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler {
			panic(v)
		}
	}()
	h.ServeHTTP(w, r)
	return w
}

const typename = `{"query":"{__typename}"}`

func TestHandler_NegotiatesTheMediaType(t *testing.T) {
	h := newHandler(t)
	const plain, response, stream = "application/json; charset=utf-8", "application/graphql-response+json; charset=utf-8", "text/event-stream; charset=utf-8"
	tests := []struct {
		accept string
		status int
		want   string
	}{
		{"", 200, plain},
		{"*/*", 200, plain},
		{"application/*", 200, plain},
		{"application/json", 200, plain},
		{"APPLICATION/JSON", 200, plain},
		{"application/graphql-response+json", 200, response},
		{"application/graphql-response+json, application/json;q=0.9", 200, response},
		{"application/graphql-response+json;q=0.5, application/json;q=0.9", 200, plain},
		{"application/json, application/graphql-response+json", 200, plain},
		{"application/graphql-response+json, application/json", 200, response},
		{"application/json;q=0, */*", 200, response},
		{"application/json;q=0.1, application/*;q=0.2", 200, response},
		{"text/html, */*;q=0.1", 200, plain},
		{"application/json; charset=utf-8", 200, plain},
		{"application/json; charset=\"UTF-8\"", 200, plain},
		{"application/json; charset=latin1", 406, plain},
		{"application/json; charset=latin1, application/graphql-response+json", 200, response},
		{"application/json;q=2", 200, plain}, // nothing valid is as good as nothing,
		{"application/json;q=NaN", 200, plain},
		{"application/json;q=0", 406, plain},
		{"text/html", 406, plain},
		{"application/graphql-response+json;q=0, application/json;q=0", 406, plain},
		{"text/event-stream", 200, stream},
		{"text/event-stream, application/json;q=0.5", 200, stream},
		{"application/json, text/event-stream", 200, plain}, // urql lists everything for everything
		{"application/graphql-response+json, application/graphql+json, application/json, text/event-stream, multipart/mixed", 200, response},
		{", ,", 200, plain},
	}
	for _, tt := range tests {
		w := do(h, request{headers: map[string]string{"Accept": tt.accept}, body: typename})
		if got := w.Header().Get("Content-Type"); w.Code != tt.status || got != tt.want {
			t.Errorf("Accept: %s: %d %s, want %d %s", tt.accept, w.Code, got, tt.status, tt.want)
		}
	}
}

func TestHandler_RefusesWhatIsNoRequest(t *testing.T) {
	h := newHandler(t)
	json := func(v string) map[string]string { return map[string]string{"Content-Type": v} }
	tests := []struct {
		name   string
		q      request
		status int
		want   string // in the body
	}{
		{"no body", request{}, 400, "the body is empty"},
		{"blank body", request{body: " \n"}, 400, "the body is empty"},
		{"not JSON", request{body: `{ "not a JSON`}, 400, "not valid JSON"},
		{"no object", request{body: `"{__typename}"`}, 400, "must be a JSON object"},
		{"null", request{body: `null`}, 400, "has no query"},
		{"batch", request{body: `[` + typename + `,` + typename + `]`}, 400, "batches are not served"},
		{"trailing garbage", request{body: typename + `x`}, 400, "goes on after the end"},
		{"two values", request{body: typename + typename}, 400, "goes on after the end"},
		{"trailing blanks", request{body: " " + typename + " \n"}, 200, "__typename"},
		{"no query", request{body: `{"qeury":"{__typename}"}`}, 400, "has no query"},
		{"query null", request{body: `{"query":null}`}, 400, "has no query"},
		{"query empty", request{body: `{"query":""}`}, 400, "has no query"},
		{"query number", request{body: `{"query":1}`}, 400, "query must be a string"},
		{"operationName list", request{body: `{"query":"{__typename}","operationName":[]}`}, 400, "operationName must be a string"},
		{"variables string", request{body: `{"query":"{__typename}","variables":"x"}`}, 400, "variables must be an object"},
		{"extensions list", request{body: `{"query":"{__typename}","extensions":[1]}`}, 400, "extensions must be an object"},
		{"all null", request{body: `{"query":"{__typename}","variables":null,"extensions":null,"operationName":null}`}, 200, "Query"},
		{"surrogate", request{body: `{"query":"{__typename}","variables":{"a":"\ud800"}}`}, 400, "surrogate"},
		{"surrogate in the query", request{body: `{"query":"{node(id:\"\\ud800\"){id}}"}`}, 200, "surrogate"},
		{"not UTF-8", request{body: "{\"query\":\"{__typename}\",\"variables\":{\"a\":\"\xff\"}}"}, 400, "UTF-8"},
		{"too large", request{body: `{"query":"` + strings.Repeat("a", 64<<10) + `"}`}, 413, "larger than 65536 bytes"},
		{"deep JSON", request{body: `{"query":"{__typename}","variables":{"a":` + strings.Repeat("[", 30_000) + `}}`}, 400, "the body is nested more than 100 levels deep"},
		{"names in another case", request{body: `{"Query":"{__typename}"}`}, 400, "has no query"},
		{"a name twice", request{body: `{"query":"{nothing}","query":"{__typename}","variables":{"a":1},"variables":null}`}, 200, "Query"},
		{"escaped names", request{body: `{"qu\u0065ry":"{\u005f_typename\n}"}`}, 200, "Query"},
		{"unknown fields", request{body: `{"query":"{__typename}","id":[1,{"a":null}]}`}, 200, "Query"},
		{"rubbish in an unknown field", request{body: `{"query":"{__typename}","id":[1,{"a":nil}]}`}, 400, "not valid JSON: error at byte 39"},
		{"ends too early", request{body: `{"query":"{__typename}"`}, 400, "ends too early"},
		{"no content type", request{headers: json(""), body: typename}, 415, "application/json"},
		{"text", request{headers: json("text/plain"), body: typename}, 415, "application/json"},
		{"form", request{headers: json("application/x-www-form-urlencoded"), body: "query={__typename}"}, 415, "application/json"},
		{"multipart", request{headers: json("multipart/form-data; boundary=x"), body: "--x--"}, 415, "application/json"},
		{"application/graphql", request{headers: json("application/graphql"), body: "{__typename}"}, 415, "application/json"},
		{"response type", request{headers: json("application/graphql-response+json"), body: typename}, 200, "Query"},
		{"utf-8", request{headers: json(`application/json; charset="UTF-8"`), body: typename}, 200, "Query"},
		{"latin1", request{headers: json("application/json; charset=iso-8859-1"), body: typename}, 415, "utf-8"},
		{"broken type", request{headers: json("application/json; charset"), body: typename}, 415, "application/json"},
		{"gzip body", request{headers: map[string]string{"Content-Encoding": "gzip"}, body: typename}, 415, "compressed"},
		{"PUT", request{method: "PUT", body: typename}, 405, "POST and GET"},
		{"DELETE", request{method: "DELETE"}, 405, "POST and GET"},
		{"HEAD", request{method: "HEAD", url: "?query={__typename}"}, 405, ""},
		{"OPTIONS", request{method: "OPTIONS"}, 204, ""},
		{"GET", request{method: "GET", url: "?query={__typename}"}, 200, "Query"},
		{"GET with everything", request{method: "GET", url: `?query=query+A($n:String!){__type(name:$n){name}}&operationName=A&variables={"n":"Query"}&extensions={}`}, 200, `"name":"Query"`},
		{"GET with empty parts", request{method: "GET", url: "?query={__typename}&variables=&operationName=&extensions="}, 200, "Query"},
		{"GET without query", request{method: "GET"}, 400, "has no query"},
		{"GET query twice", request{method: "GET", url: "?query={__typename}&query={a}"}, 400, "twice"},
		{"GET variables garbage", request{method: "GET", url: "?query={__typename}&variables={}x"}, 400, "goes on after the end"},
		{"GET variables list", request{method: "GET", url: "?query={__typename}&variables=[]"}, 400, "must be a JSON object"},
		{"GET not UTF-8", request{method: "GET", url: "?query=%ff"}, 400, "not valid UTF-8"},
		{"GET bad escape", request{method: "GET", url: "?query=%zz"}, 400, "not valid"},
		{"GET too long", request{method: "GET", url: "?query=" + strings.Repeat("a", 64<<10)}, 414, "use POST"},
		{"GET mutation", request{method: "GET", url: "?query=mutation{__typename}"}, 405, "needs POST"},
		{"GET mutation among queries", request{method: "GET", url: "?query=query+A{__typename}mutation+B{__typename}&operationName=B"}, 405, "needs POST"},
		{"GET query among mutations", request{method: "GET", url: "?query=query+A{__typename}mutation+B{__typename}&operationName=A"}, 200, "Query"},
		{"subscription by POST", request{body: `{"query":"subscription{shards{number}}"}`}, 406, "text/event-stream"},
		{"subscription by GET", request{method: "GET", url: "?query=subscription{shards{number}}"}, 406, "text/event-stream"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := do(h, tt.q)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%d %s\nwant %d … %s", w.Code, w.Body, tt.status, tt.want)
			}
			if w.Code == 405 && w.Header().Get("Allow") == "" {
				t.Error("405 without Allow")
			}
			if w.Body.Len() > 4<<10 {
				t.Errorf("answer of %d bytes", w.Body.Len())
			}
			if strings.Contains(w.Body.String(), "aaaaaaaaaaaa") {
				t.Error("the answer echoes the request")
			}
		})
	}
}

func TestHandler_StatusOfRefusedDocuments(t *testing.T) {
	h := newHandler(t)
	for name, body := range map[string]string{
		"parse":     `{"query":"{"}`,
		"validate":  `{"query":"{nothing}"}`,
		"variables": `{"query":"query($id:ID!){node(id:$id){id}}","variables":{"id":null}}`,
		"operation": `{"query":"query A{__typename}","operationName":"B"}`,
		"limit":     `{"query":"{` + strings.Repeat(" __typename", 1001) + `}"}`,
		"cost":      `{"query":"{chatRooms(first:1000){edges{node{messages(first:1000){edges{cursor}}}}}}"}`,
	} {
		for accept, want := range map[string]int{"application/json": 200, "application/graphql-response+json": 400} {
			w := do(h, request{headers: map[string]string{"Accept": accept}, body: body})
			var got struct {
				Data   json.RawMessage `json:"data"`
				Errors []struct {
					Message    string
					Extensions map[string]any
				} `json:"errors"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatalf("%s: %v: %s", name, err, w.Body)
			}
			if w.Code != want || got.Data != nil || len(got.Errors) == 0 || got.Errors[0].Extensions["code"] != "BAD_REQUEST" {
				t.Errorf("%s as %s: %d %s", name, accept, w.Code, w.Body)
			}
		}
	}
}

func TestHandler_KeepsTheDigitsOfNumbers(t *testing.T) {
	h := newHandler(t)
	w := do(h, request{body: `{"query":"query($n:Int){chatRooms(first:$n){edges{cursor}}}","variables":{"n":9007199254740993}}`})
	if !strings.Contains(w.Body.String(), "BAD_REQUEST") {
		t.Errorf("a number of 54 bits went through as an Int: %s", w.Body)
	}
}

func TestHandler_CompressesLargeAnswers(t *testing.T) {
	h := newHandler(t)
	body := `{"query":"{__schema{types{name fields{name description}}}}"}`
	plain := do(h, request{body: body})
	for _, tt := range []struct {
		accept string
		want   string
	}{{"gzip", "gzip"}, {"br, gzip;q=0.5", "gzip"}, {"*", "gzip"}, {"gzip;q=0", ""}, {"identity", ""}, {"", ""}, {"gzip;q=0, *", ""}} {
		w := do(h, request{headers: map[string]string{"Accept-Encoding": tt.accept}, body: body})
		if got := w.Header().Get("Content-Encoding"); got != tt.want {
			t.Errorf("Accept-Encoding %q: %q", tt.accept, got)
		}
		if tt.want == "" {
			continue
		}
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(z)
		if err != nil || !bytes.Equal(got, plain.Body.Bytes()) {
			t.Errorf("unpacked %d bytes, want %d (%v)", len(got), plain.Body.Len(), err)
		}
	}
	if small := do(h, request{headers: map[string]string{"Accept-Encoding": "gzip"}, body: typename}); small.Header().Get("Content-Encoding") != "" {
		t.Error("a small answer was compressed")
	}
}
