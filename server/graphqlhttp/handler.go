package graphqlhttp

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/auth"
	"github.com/chathome/chathome/server/limits"
	"github.com/chathome/chathome/server/sse"
)

// Config of the handler for /graphql. Only Schema is needed.
type Config struct {
	Schema     graphql.ExecutableSchema
	Present    graphql.ErrorPresenterFunc // nil: gqlgen's
	Recover    graphql.RecoverFunc        // nil: gqlgen's
	Extensions []graphql.HandlerExtension

	// Transports are asked first, in this order; what none of them supports is HTTP or SSE.
	Transports []graphql.Transport
	// Streams serves event streams; nil: SSE with its defaults.
	Streams *sse.Server

	// Authenticate is asked for each request, and once for an event stream. nil: auth.Everybody.
	Authenticate auth.Authenticate

	Limits        limits.Limits // zero value: limits.Default
	Introspection bool

	MaxBodyBytes        int64         // also of a URL's query string; 0: 64 KiB
	DocumentCacheBytes  int           // parsed documents; 0: 16 MiB
	PersistedCacheBytes int           // texts of persisted queries; 0: 4 MiB
	Timeout             time.Duration // of a query or mutation on any transport; 0: 10 s

	Log *slog.Logger // nil: none
}

func (c Config) withDefaults() Config {
	if c.Limits == (limits.Limits{}) {
		c.Limits = limits.Default()
	}
	if c.Streams == nil {
		c.Streams = sse.New(sse.Config{})
	}
	if c.Authenticate == nil {
		c.Authenticate = auth.Everybody
	}
	if c.MaxBodyBytes == 0 {
		c.MaxBodyBytes = 64 << 10
	}
	if c.DocumentCacheBytes == 0 {
		c.DocumentCacheBytes = 16 << 20
	}
	if c.PersistedCacheBytes == 0 {
		c.PersistedCacheBytes = 4 << 20
	}
	if c.Timeout == 0 {
		c.Timeout = 10 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Handler serves /graphql.
type Handler struct {
	exec       *Executor
	transports []graphql.Transport
	streams    *sse.Server
	auth       auth.Authenticate
	maxBody    int64
	headers    headers
	buffers    sync.Pool // *bytes.Buffer
	zippers    sync.Pool // *gzip.Writer
	log        *slog.Logger
}

// New returns a ready handler, or an error when an extension does not fit the schema.
func New(cfg Config) (*Handler, error) {
	if cfg.Schema == nil {
		return nil, errors.New("graphqlhttp: no schema")
	}
	cfg = cfg.withDefaults()
	for _, e := range cfg.Extensions {
		if err := e.Validate(cfg.Schema); err != nil {
			return nil, errors.Join(errors.New("graphqlhttp: extension "+e.ExtensionName()), err)
		}
	}
	return &Handler{
		exec:       newExecutor(cfg),
		transports: cfg.Transports,
		streams:    cfg.Streams,
		auth:       cfg.Authenticate,
		maxBody:    cfg.MaxBodyBytes,
		headers:    newHeaders(),
		buffers:    sync.Pool{New: func() any { return new(bytes.Buffer) }},
		zippers:    sync.Pool{New: newZipper},
		log:        cfg.Log,
	}, nil
}

// Executor is what the transports share; for tests and for transports outside this handler.
func (h *Handler) Executor() *Executor { return h.exec }

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, t := range h.transports {
		if t.Supports(r) {
			t.Do(w, r.WithContext(graphql.StartOperationTrace(r.Context())), h.exec)
			return
		}
	}
	h.serve(w, r)
}

// serve is one request over plain HTTP, or one event stream.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request) {
	accept := negotiate(r.Header["Accept"])
	defer h.recovered(w, r, accept)

	switch r.Method {
	case http.MethodPost, http.MethodGet:
	case http.MethodOptions: // a CORS preflight ends before it comes here
		w.Header().Set("Allow", "GET, POST, OPTIONS")
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		h.refuse(w, r, accept, &requestError{
			status: http.StatusMethodNotAllowed, allow: "GET, POST, OPTIONS",
			message: "GraphQL is served by POST and GET",
		})
		return
	}
	if accept.json == "" && accept.stream == 0 {
		h.refuse(w, r, accept, &requestError{
			status:  http.StatusNotAcceptable,
			message: "answers are " + typeResponse + ", " + typeJSON + " or, for subscriptions, " + typeStream,
		})
		return
	}
	params, bad := h.readRequest(w, r)
	if bad != nil {
		h.refuse(w, r, accept, bad)
		return
	}
	ctx := graphql.StartOperationTrace(r.Context()) // in a request of its own only for streams: that is a large copy
	viewer, expiry, err := h.auth(ctx, r.Header, nil)
	if err == nil && !expiry.IsZero() && !time.Now().Before(expiry) {
		err = errExpired
	}
	if err != nil {
		h.log.DebugContext(ctx, "request was not let in", "err", err)
		h.refuse(w, r, accept, &requestError{
			status: http.StatusUnauthorized, code: graph.CodeUnauthenticated,
			message: "you are not allowed in; nothing was executed",
		})
		return
	}
	if viewer != "" {
		ctx = auth.WithViewer(ctx, viewer)
	}

	op, list := h.exec.CreateOperationContext(ctx, params)
	if list != nil {
		resp := h.exec.DispatchError(graphql.WithOperationContext(ctx, op), list)
		if accept.wantsStream(nil) {
			// graphql-sse: an EventSource learns nothing from a response that is not a stream.
			h.streams.Refuse(w, resp.Errors)
			return
		}
		h.answer(w, r, accept, statusOfRefusal(accept), resp, false)
		return
	}
	if bad := allowed(r.Method, op.Operation, accept); bad != nil {
		h.refuse(w, r, accept, bad)
		return
	}
	if accept.wantsStream(op.Operation) {
		h.streams.Serve(w, r.WithContext(ctx), sse.Request{Exec: h.exec, Operation: op, Viewer: viewer, Expiry: expiry})
		return
	}
	responses, ctx := h.exec.DispatchOperation(ctx, op)
	resp := responses(ctx)
	if resp == nil { // the client has gone, or an extension gave nothing
		resp = &graphql.Response{Errors: gqlerror.List{refusal(graph.CodeInternal, "there was no answer")}}
	}
	h.answer(w, r, accept, http.StatusOK, resp, true)
}

var errExpired = errors.New("the proof has expired")

// wantsStream: a subscription is always an event stream. Other operations, and requests that were refused
// (op is nil), are one only where the client likes it better: some clients list all types for everything.
func (a acceptable) wantsStream(op *ast.OperationDefinition) bool {
	if op != nil && op.Operation == ast.Subscription {
		return true
	}
	return a.stream > 0 && (a.json == "" || a.stream > a.jsonQ)
}

// allowed: what may be done by which method, and in which form.
func allowed(method string, op *ast.OperationDefinition, accept acceptable) *requestError {
	switch {
	case op.Operation == ast.Mutation && method != http.MethodPost:
		return &requestError{
			status: http.StatusMethodNotAllowed, allow: http.MethodPost,
			message: "a mutation needs POST; nothing was executed",
		}
	case op.Operation == ast.Subscription && accept.stream == 0:
		return &requestError{
			status: http.StatusNotAcceptable,
			message: "a subscription is a stream: send Accept: text/event-stream, " +
				"or use a WebSocket with the subprotocol graphql-transport-ws",
		}
	}
	return nil
}

// statusOfRefusal: application/json is for clients of old, which take anything but 200 for a fault of the
// network (GraphQL over HTTP, "application/json").
func statusOfRefusal(a acceptable) int {
	if a.json == typeResponse {
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// recovered answers a panic of the transport itself; those of resolvers end in the executor.
func (h *Handler) recovered(w http.ResponseWriter, r *http.Request, accept acceptable) {
	v := recover()
	switch v {
	case nil:
		return
	case http.ErrAbortHandler:
		panic(v)
	}
	err := h.exec.inner.PresentRecoveredError(context.WithoutCancel(r.Context()), v)
	var one *gqlerror.Error
	if !errors.As(err, &one) {
		one = refusal(graph.CodeInternal, "internal error")
	}
	h.answer(w, r, accept, http.StatusInternalServerError, &graphql.Response{Errors: gqlerror.List{one}}, false)
}
