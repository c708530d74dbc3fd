package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	api "github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/graphqlhttp"
	"github.com/chathome/chathome/server/sse"
	"github.com/chathome/chathome/server/ws"
)

// waysIn are the transports of GraphQL: POST and GET, event streams, sockets.
type waysIn struct {
	http.Handler
	// shutdown ends event streams and sockets so that their clients come back, elsewhere. Queries and
	// mutations under way are answered first. The error says that something had to be cut.
	shutdown func(ctx context.Context) error
}

// mount puts the ways in on a schema. It is the whole seam between the two.
func mount(schema graphql.ExecutableSchema, introspection bool, log *slog.Logger) (*waysIn, error) {
	hub := fanout.New(fanout.Config{Classify: shareable, Log: log})
	sockets, err := ws.New(ws.Config{
		Hub:         hub,
		CheckOrigin: func(*http.Request) bool { return true }, // httpserver has, for all ways in alike
		Log:         log,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare sockets: %w", err)
	}
	streams := sse.New(sse.Config{Hub: hub})
	present := api.NewErrorPresenter(log)
	handler, err := graphqlhttp.New(graphqlhttp.Config{
		Schema:        schema,
		Present:       present,
		Recover:       api.Recover,
		Extensions:    api.Extensions(present),
		Transports:    []graphql.Transport{sockets},
		Streams:       streams,
		Introspection: introspection,
		Log:           log,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare GraphQL over HTTP: %w", err)
	}
	return &waysIn{Handler: handler, shutdown: func(ctx context.Context) error {
		letLastEventsOut(ctx, hub)
		both := make(chan error, 1)
		go func() { both <- streams.Shutdown(ctx) }()
		err := sockets.Shutdown(ctx)
		return errors.Join(err, <-both)
	}}, nil
}

// shareable: events that hold nothing else are sent to everybody who wants the same ones.
func shareable(f *ast.Field) fanout.Class {
	if api.Immutable(f) {
		return fanout.Immutable
	}
	return fanout.Unshareable
}

// lastEvents is how long subscriptions that ended with the gate have to say why, and where to go.
const lastEvents = 500 * time.Millisecond

// letLastEventsOut waits until no subscription is left, but not for long: those of the room list do not end with
// the gate.
func letLastEventsOut(ctx context.Context, hub *fanout.Hub) {
	ctx, cancel := context.WithTimeout(ctx, lastEvents)
	defer cancel()
	tick := time.NewTicker(lastEvents / 100)
	defer tick.Stop()
	for hub.Groups() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
