package graph_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/google/uuid"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
)

func TestErrors_TheTable(t *testing.T) {
	id := uuid.MustParse("0c2e5a3c-9b7a-4a55-8f0e-2d1c8b1f6e4a")
	for _, tc := range []struct {
		err        error
		extensions string
		says       string // a word of what is wrong, was done, or can be done
	}{
		{&domain.ShardNotOwnedError{Shard: 3, State: domain.ShardLocked, Instance: domain.Instance{ID: "a", URL: "http://a"}, RetryAfter: 1500 * time.Microsecond},
			`{"code":"SHARD_NOT_OWNED","retryAfterMs":2,"shardNotOwned":{"shard":3,"state":"LOCKED","instance":{"id":"a","url":"http://a"},"owner":null,"progress":null,"retryAfterMs":2}}`, "in 2 ms"},
		{&domain.ShardNotOwnedError{Shard: 3, State: domain.ShardLoading, Instance: domain.Instance{ID: "a", URL: "http://a"}, Owner: &domain.Owner{Instance: domain.Instance{ID: "b", URL: "http://b"}, Version: 9007199254740993}, Progress: &domain.Progress{Loaded: 1, Target: 4}},
			`{"code":"SHARD_NOT_OWNED","retryAfterMs":0,"shardNotOwned":{"shard":3,"state":"LOADING","instance":{"id":"a","url":"http://a"},"owner":{"instance":{"id":"b","url":"http://b"},"version":"9007199254740993"},"progress":{"loaded":"1","target":"4","ratio":0.25},"retryAfterMs":0}}`, "http://b"},
		{&domain.OutcomeUnknownError{Shard: 3}, `{"code":"OUTCOME_UNKNOWN"}`, "same ids"},
		{&domain.OverloadedError{Resource: "writer", RetryAfter: time.Second}, `{"code":"OVERLOADED","retryAfterMs":1000}`, "1000 ms"},
		{&domain.CursorOutOfRangeError{Oldest: "o", Newest: "n"}, `{"code":"CURSOR_OUT_OF_RANGE","newestCursor":"n","oldestCursor":"o"}`, "oldestCursor"},
		{&domain.CursorOutOfRangeError{}, `{"code":"CURSOR_OUT_OF_RANGE","newestCursor":null,"oldestCursor":null}`, "without a cursor"},
		{&domain.UnknownChatRoomError{ID: id}, `{"chatRoomId":"0c2e5a3c-9b7a-4a55-8f0e-2d1c8b1f6e4a","code":"UNKNOWN_CHAT_ROOM"}`, "no chat room"},
		{&domain.BadCursorError{Reason: "malformed"}, `{"code":"BAD_REQUEST"}`, "cursor"},
		{&domain.InvalidInputError{Fields: []domain.InvalidField{{Field: "name", Rule: "BLANK"}}}, `{"code":"BAD_REQUEST"}`, "name breaks BLANK"},
		{&gqlerror.Error{Message: "PersistedQueryNotFound", Extensions: map[string]any{"code": graph.CodePersistedQueryNotFound}}, `{"code":"PERSISTED_QUERY_NOT_FOUND"}`, "PersistedQueryNotFound"},
		{&graph.Error{Code: graph.CodeUnauthenticated, Message: "Who are you?"}, `{"code":"UNAUTHENTICATED"}`, "Who are you?"},
		{&gqlerror.Error{Message: "no such field", Extensions: map[string]any{"code": "GRAPHQL_VALIDATION_FAILED"}}, `{"code":"BAD_REQUEST"}`, "no such field"},
		{&gqlerror.Error{Message: "syntax", Extensions: map[string]any{"code": "GRAPHQL_PARSE_FAILED"}}, `{"code":"BAD_REQUEST"}`, "syntax"},
		{&gqlerror.Error{Message: "slowly", Extensions: map[string]any{"code": "RATE_LIMITED", "retryAfterMs": 5}}, `{"code":"RATE_LIMITED","retryAfterMs":5}`, "slowly"},
		{&gqlerror.Error{Message: "send it", Extensions: map[string]any{"code": "PERSISTED_QUERY_NOT_FOUND"}}, `{"code":"PERSISTED_QUERY_NOT_FOUND"}`, "send it"},
	} {
		present := graph.NewErrorPresenter(slog.New(slog.DiscardHandler))
		for name, err := range map[string]error{
			"plain": tc.err, "wrapped": fmt.Errorf("load: secret: %w", tc.err), "by gqlgen": gqlerror.WrapPath(nil, fmt.Errorf("secret: %w", tc.err)), "joined": errors.Join(errors.New("secret"), tc.err),
		} {
			if _, ok := errors.AsType[*gqlerror.Error](tc.err); ok && name != "plain" {
				continue
			}
			e := present(t.Context(), err)
			if got := jsonOf(e.Extensions); got != tc.extensions {
				t.Errorf("%s %T: %s, want %s", name, tc.err, got, tc.extensions)
			}
			if !strings.Contains(e.Message, tc.says) || strings.Contains(e.Message, "secret") {
				t.Errorf("%s %T: %q, want something with %q", name, tc.err, e.Message, tc.says)
			}
		}
	}
}

func TestErrors_WhatIsNotKnownIsMaskedAndLoggedWithItsID(t *testing.T) {
	for name, fault := range map[string]domaintest.Fault{
		"an error": {Err: fmt.Errorf("secret")},
		"a panic":  {Panic: "secret"},
		"nil map":  {Panic: fmt.Errorf("secret")},
	} {
		for op, document := range map[domaintest.Op]string{
			domaintest.OpDirectoryRoom: `query($id: ID!) { chatRoom(id: $id) { id } }`,
			domaintest.OpMessages:      `query($id: ID!) { chatRoom(id: $id) { messages { edges { cursor } } } }`,
			domaintest.OpBounds:        `subscription($id: ID!) { messages(chatRoomId: $id) { live } }`,
			domaintest.OpCursorAt:      `subscription($id: ID!) { messages(chatRoomId: $id) { live } }`,
		} {
			c := newClient(domaintest.Config{})
			room := c.home.AddRoom("lobby")
			fault.Op = op
			c.home.Inject(fault)
			r := c.do(t, document, vars("id", room.ID))
			if r.code() != "INTERNAL" || strings.Contains(r.raw, "secret") {
				t.Fatalf("%s of %s: %s", name, op, r.raw)
			}
			id, _ := r.Errors[0].Extensions["errorId"].(string)
			if len(id) < 16 || strings.Count(c.log.String(), `"errorId":"`+id+`"`) != 1 || !strings.Contains(c.log.String(), "secret") {
				t.Errorf("%s of %s: id %q, log %s", name, op, id, c.log)
			}
			if fault.Panic != nil && !strings.Contains(c.log.String(), "goroutine") {
				t.Errorf("%s of %s: no stack in the log", name, op)
			}
		}
	}
}

func TestErrors_FaultsOfTheService(t *testing.T) {
	for code, err := range map[string]error{
		"OUTCOME_UNKNOWN": &domain.OutcomeUnknownError{},
		"OVERLOADED":      &domain.OverloadedError{Resource: "writer"},
		"SHARD_NOT_OWNED": &domain.ShardNotOwnedError{},
	} {
		c := newClient(domaintest.Config{})
		room := c.home.AddRoom("lobby")
		c.home.Inject(domaintest.Fault{Op: domaintest.OpSend, Err: err, Times: 1})
		r := c.send(t, room, "alice", "1", "hi")
		if r.code() != code || r.at("sendMessage") != nil || jsonOf(r.Errors[0].Path) != `["sendMessage"]` || len(r.Errors[0].Locations) != 1 {
			t.Errorf("%s: %s", code, r.raw)
		}
		if c.log.String() != "" {
			t.Errorf("logged: %s", c.log)
		}
	}
	c := newClient(domaintest.Config{Closed: true})
	r := c.do(t, sendDocument, vars("i", map[string]any{"chatRoomId": uuid.New(), "user": "a", "clientId": "1", "text": "hi"}))
	if r.code() != "SHARD_NOT_OWNED" || walk(r.Errors[0].Extensions, "shardNotOwned", "state") != "LOCKED" {
		t.Errorf("closed gate: %s", r.raw)
	}
}

func TestErrors_AClientThatWentAwayIsNoFaultOfTheProgram(t *testing.T) {
	c := newClient(domaintest.Config{})
	present := graph.NewErrorPresenter(slog.New(slog.NewTextHandler(c.log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if e := present(ctx, fmt.Errorf("read: %w", context.Canceled)); e.Extensions["code"] != "OUTCOME_UNKNOWN" || c.log.String() != "" {
		t.Errorf("%v, log %s", e, c.log)
	}
	if e := present(t.Context(), fmt.Errorf("read: %w", context.Canceled)); e.Extensions["code"] != "INTERNAL" {
		t.Errorf("somebody else's context: %v", e)
	}
}

func TestErrors_OfRequestsAreBadRequests(t *testing.T) {
	c := newClient(domaintest.Config{})
	for _, document := range []string{
		``, `{`, `{ nothing }`, `{ chatRoom { id } }`, `{ chatRoom(id: 4) { id } }`, `{ chatRoom(id: null) { id } }`, `query A { shards { number } } query B { shards { number } }`,
		`subscription { shards { number } chatRooms { live } }`,
	} {
		r := c.do(t, document, "")
		for _, e := range r.Errors {
			if e.Extensions["code"] != "BAD_REQUEST" || e.Message == "" {
				t.Errorf("%s: %s", document, r.raw)
			}
		}
		if len(r.Errors) == 0 {
			t.Errorf("%s: %s", document, r.raw)
		}
	}
}

func TestErrors_IntrospectionThatIsOffIsForbidden(t *testing.T) {
	c := newClient(domaintest.Config{})
	ctx := graphql.StartOperationTrace(t.Context())
	op, errs := c.exec.CreateOperationContext(ctx, &graphql.RawParams{Query: `{ __schema { types { name } } instance { id } }`})
	if errs != nil {
		t.Fatal(errs)
	}
	next, ctx := c.exec.DispatchOperation(ctx, op)       // gqlgen's default is off
	if r := decode(next(ctx)); r.code() != "FORBIDDEN" { // __schema may not be null, so all data go along
		t.Errorf("%s", r.raw)
	}
}

func TestErrors_BeforeTheShardCountIsKnownEverythingIsLocked(t *testing.T) {
	c := clientOf(starting{domaintest.New(domaintest.Config{})})
	r := c.do(t, sendDocument, vars("i", map[string]any{"chatRoomId": uuid.New(), "user": "a", "clientId": "1", "text": "hi"}))
	if r.code() != "SHARD_NOT_OWNED" || walk(r.Errors[0].Extensions, "shardNotOwned", "state") != "LOCKED" || walk(r.Errors[0].Extensions, "retryAfterMs") == nil {
		t.Errorf("%s", r.raw)
	}
	if r := c.do(t, `subscription { chatRooms { live } }`, ""); r.code() != "OVERLOADED" {
		t.Errorf("%s", r.raw)
	}
}

// starting is a home that has not read the directory yet.
type starting struct{ domain.ChatHome }

func (starting) ShardOf(uuid.UUID) (domain.ShardID, bool) { return 0, false }
func (starting) Home() uuid.UUID                          { return uuid.UUID{} }
