package graphqlhttp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/graphqlhttp"
	"github.com/chathome/chathome/server/limits/limitstest"
)

// endless is a body that never ends; it counts what is taken of it.
type endless struct{ taken int }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.taken += len(b)
	return len(b), nil
}

// Bodies cost what the limit says, whatever they claim to be.
func TestHandler_ABodyCostsNoMoreThanTheLimit(t *testing.T) {
	h := newHandler(t)
	ask := func(body io.Reader, most uint64) int {
		r := httptest.NewRequest("POST", "/graphql", body)
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = -1 // chunked
		w := httptest.NewRecorder()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		h.ServeHTTP(w, r)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > most {
			t.Errorf("allocated %d bytes", n)
		}
		return w.Code
	}
	e := &endless{}
	if got := ask(e, 1<<20); got != 413 {
		t.Errorf("an endless body: %d", got)
	}
	if e.taken > 64<<10+1+1<<20 { // the limit and one byte, and what is thrown away
		t.Errorf("%d bytes were read", e.taken)
	}
	large := bytes.Repeat([]byte(`{"query":"{a}"}`), 64<<20/15)
	if got := ask(bytes.NewReader(large), 1<<20); got != 413 {
		t.Errorf("64 MB: %d", got)
	}
	if got := ask(strings.NewReader(`{"query":"{__typename}","variables":{"a":`+strings.Repeat(`{"a":`, 9000)+`1`+strings.Repeat("}", 9000)+`}}`), 1<<20); got != 400 {
		t.Errorf("deep variables: %d", got)
	}
}

// With bodies as large as the attacks: what is refused costs little and is answered in few words, in each form.
func TestHandler_AttacksAreRefusedCheaply(t *testing.T) {
	h := newHandler(t, func(c *graphqlhttp.Config) { c.MaxBodyBytes = 4 << 20 })
	allowed := map[string]bool{ // nothing is wrong with these but their size, or they stay within the cost
		"one string": true, "one block string": true, "escapes": true, "same path, fragments": true, "introspection, aliases": true,
	}
	for name, document := range limitstest.Attacks() {
		body, err := json.Marshal(map[string]string{"query": document})
		if err != nil {
			t.Fatal(err)
		}
		for _, accept := range []string{"application/json", "application/graphql-response+json", "text/event-stream"} {
			q := request{headers: map[string]string{"Accept": accept}, body: string(body)}
			do(h, q) // fills the buffers, which are kept for the next
			var w *httptest.ResponseRecorder
			allocated := limitstest.Allocated(func() { w = do(h, q) })
			switch refused := !strings.Contains(w.Body.String(), `"data":`); {
			case !refused && !allowed[name]:
				t.Errorf("%s as %s: executed: %.300s", name, accept, w.Body)
			case !refused: // what it costs is bounded by Limits.Cost
			case allocated > limitstest.MaxBytes:
				t.Errorf("%s as %s: allocated %d bytes for %d", name, accept, allocated, len(body))
			case w.Body.Len() > limitstest.MaxAnswer || !strings.Contains(w.Body.String(), "BAD_REQUEST"):
				t.Errorf("%s as %s: %d, %d bytes: %.300s", name, accept, w.Code, w.Body.Len(), w.Body)
			}
		}
	}
}

// Text that is not Unicode is refused, never changed, so that no two texts become one.
func TestHandler_NeverChangesText(t *testing.T) {
	home := domaintest.New(domaintest.Config{})
	room := home.DrawChatRoomID()
	if _, _, err := home.CreateChatRoom(t.Context(), room, "text"); err != nil {
		t.Fatal(err)
	}
	h := newHandler(t, func(c *graphqlhttp.Config) { c.Schema = graph.New(home) })
	send := func(id, text string) string {
		const body = `{"query":"mutation($i: SendMessageInput!) { sendMessage(input: $i) { __typename ... on SendMessageSuccess { duplicate message { text } } ... on MessageMutation { existing { text } } } }",` +
			`"variables":{"i":{"chatRoomId":"%s","user":"u","clientId":"%s","text":"%s"}}}`
		return do(h, request{body: fmt.Sprintf(body, room, id, text)}).Body.String()
	}
	inline := func(id, literal string) string {
		query, _ := json.Marshal(fmt.Sprintf(`mutation { sendMessage(input: {chatRoomId: "%s", user: "u", clientId: "%s", text: %s}) { __typename ... on SendMessageSuccess { message { text } } } }`, room, id, literal))
		return do(h, request{body: `{"query":` + string(query) + `}`}).Body.String()
	}
	for _, broken := range []string{`\ud800`, `\udfff`, `a\uD800b`, `\udc00\ud800`, `\ud800\u0041`, "\xff", "\xed\xa0\x80"} {
		if got := send("1", broken); !strings.Contains(got, "BAD_REQUEST") {
			t.Errorf("%q: %s", broken, got)
		}
	}
	for _, broken := range []string{`"\ud800"`, `"x\uDFFF"`} {
		if got := inline("1", broken); !strings.Contains(got, "BAD_REQUEST") {
			t.Errorf("literal %s: %s", broken, got)
		}
	}
	if got := send("1", `\ufffd`); !strings.Contains(got, "SendMessageSuccess") || !strings.Contains(got, "\ufffd") {
		t.Errorf("U+FFFD itself: %s", got)
	}
	if got := send("1", "\ufffd"); !strings.Contains(got, `"duplicate":true`) {
		t.Errorf("the same, not escaped: %s", got)
	}
	if got := send("2", `\ud83d\ude00`); !strings.Contains(got, "😀") {
		t.Errorf("a pair: %s", got)
	}
	if got := inline("3", `"\ud83d\ude00 \\ud800"`); !strings.Contains(got, `😀 \\ud800`) {
		t.Errorf("a literal with an escaped backslash: %s", got)
	}
}

// Nothing that a page of another site may send without asking first reaches the executor.
func TestHandler_SimpleRequestsDoNotExecute(t *testing.T) {
	home := domaintest.New(domaintest.Config{})
	h := newHandler(t, func(c *graphqlhttp.Config) { c.Schema = graph.New(home) })
	id := uuid.New()
	mutation := fmt.Sprintf(`mutation{createChatRoom(input:{name:\"x\",id:\"%s\"}){__typename}}`, id)
	for _, content := range []string{"text/plain", "text/plain; x=application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
		do(h, request{headers: map[string]string{"Content-Type": content}, body: `{"query":"` + mutation + `"}`})
	}
	do(h, request{method: "GET", url: "?query=" + strings.ReplaceAll(mutation, `\"`, "%22")})
	do(h, request{method: "GET", headers: map[string]string{"Accept": "text/event-stream"}, url: "?query=" + strings.ReplaceAll(mutation, `\"`, "%22")})
	if _, err := home.Directory().ChatRoom(t.Context(), id); err == nil {
		t.Error("a room was created")
	}
}
