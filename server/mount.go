package main

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/extension"
	"github.com/99designs/gqlgen/graphql/handler/lru"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/coder/websocket"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/chathome/chathome/graph"
)

// Limits of the GraphQL side. Validation takes time that grows with the square of the fields, so the number of
// tokens is what protects it.
const (
	maxTokens     = 1000
	maxDocuments  = 256      // parsed ones that are kept
	maxFrame      = 64 << 10 // bytes of one WebSocket message
	initTimeout   = 3 * time.Second
	pingInterval  = 12 * time.Second
	subprotocolWS = "graphql-transport-ws"
)

// mount puts the ways in (POST, GET, WebSocket) on a schema. It is the whole seam between the two.
func mount(schema graphql.ExecutableSchema, introspection bool, log *slog.Logger) http.Handler {
	server := handler.New(schema)
	graph.Configure(server, log)
	server.SetParserTokenLimit(maxTokens)
	server.SetQueryCache(lru.New[*ast.QueryDocument](maxDocuments))
	if introspection {
		server.Use(extension.Introspection{})
	}
	limit := int64(maxFrame)
	server.AddTransport(transport.Websocket{
		Implementation: transport.CoderWebsocketImplementation{AcceptOptions: websocket.AcceptOptions{
			Subprotocols:       []string{subprotocolWS},
			InsecureSkipVerify: true, // httpserver has checked the origin
		}},
		InitTimeout:      initTimeout,
		PingPongInterval: pingInterval,
		PayloadReadLimit: &limit,
	})
	server.AddTransport(transport.GET{})
	server.AddTransport(transport.POST{})
	return server
}
