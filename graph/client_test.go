package graph_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/executor"
	"go.uber.org/goleak"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is gqlgen's executor as a transport would use it, and the home behind it.
type client struct {
	home *domaintest.Home // nil where the test has a home of its own
	exec *executor.Executor
	log  *logbook
}

func newClient(cfg domaintest.Config) *client {
	h := domaintest.New(cfg)
	c := clientOf(h)
	c.home = h
	return c
}

func clientOf(h domain.ChatHome) *client {
	c := &client{exec: executor.New(graph.New(h)), log: &logbook{}}
	graph.Configure(c.exec, slog.New(slog.NewJSONHandler(c.log, nil)))
	return c
}

type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// response is one answer, decoded without loss of digits.
type response struct {
	Data   any
	Errors []struct {
		Message    string
		Path       []any
		Locations  []any
		Extensions map[string]any
	}
	raw string
}

// start runs a document; variables are JSON text. It returns what a transport would iterate on.
func (c *client) start(ctx context.Context, document, variables string) func() *response {
	params := &graphql.RawParams{Query: document}
	if variables != "" {
		d := json.NewDecoder(strings.NewReader(variables))
		d.UseNumber()
		if err := d.Decode(&params.Variables); err != nil {
			panic(err)
		}
	}
	ctx = graphql.StartOperationTrace(ctx)
	op, errs := c.exec.CreateOperationContext(ctx, params)
	if errs != nil {
		r := c.exec.DispatchError(graphql.WithOperationContext(ctx, op), errs)
		return once(decode(r))
	}
	op.DisableIntrospection = false
	next, ctx := c.exec.DispatchOperation(ctx, op)
	return func() *response { return decode(next(ctx)) }
}

func once(r *response) func() *response {
	return func() *response {
		out := r
		r = nil
		return out
	}
}

func decode(r *graphql.Response) *response {
	if r == nil {
		return nil
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	out := &response{raw: string(b)}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(out); err != nil {
		panic(fmt.Errorf("%w: %s", err, b))
	}
	return out
}

func (c *client) do(t *testing.T, document, variables string) *response {
	t.Helper()
	r := c.start(t.Context(), document, variables)()
	if r == nil {
		t.Fatal("no response")
	}
	return r
}

// ok runs a document that must have no errors.
func (c *client) ok(t *testing.T, document, variables string) *response {
	t.Helper()
	r := c.do(t, document, variables)
	if len(r.Errors) > 0 {
		t.Fatalf("errors: %s", r.raw)
	}
	return r
}

// code is the code of the only error.
func (r *response) code() string {
	if len(r.Errors) != 1 {
		return fmt.Sprintf("%d errors", len(r.Errors))
	}
	return fmt.Sprint(r.Errors[0].Extensions["code"])
}

// at walks into the data: at("chatRoom", "messages", 0).
func (r *response) at(path ...any) any { return walk(r.Data, path...) }

func walk(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// vars builds variables: vars("id", x, "text", y).
func vars(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return jsonOf(m)
}

const sendDocument = `mutation($i: SendMessageInput!) { sendMessage(input: $i) {
	__typename
	... on SendMessageSuccess { duplicate message { id clientId user text serial sentAt chatRoom { id name } } edge { cursor node { id } } }
	... on MessageMutation { reason existing { id text serial sentAt } }
	... on UnknownChatRoom { reason chatRoomId }
	... on InvalidInput { reason fields { field rule limit actual } }
} }`

func (c *client) send(t *testing.T, room domain.ChatRoomInfo, user, clientID, text string) *response {
	t.Helper()
	return c.do(t, sendDocument, vars("i", map[string]any{
		"chatRoomId": room.ID.String(), "user": user, "clientId": clientID, "text": text,
	}))
}
