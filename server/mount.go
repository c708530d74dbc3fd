package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"

	api "github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/auth"
	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/graphqlhttp"
	"github.com/chathome/chathome/server/peers"
	"github.com/chathome/chathome/server/sse"
	"github.com/chathome/chathome/server/ws"
)

// waysIn are the transports of GraphQL: POST and GET, event streams, sockets.
type waysIn struct {
	http.Handler
	// shutdown ends event streams and sockets so that their clients come back, elsewhere. Queries and
	// mutations under way are answered first. The error says that something had to be cut.
	shutdown func(ctx context.Context) error
	// How many there are now.
	subscriptions, sockets, streams func() int
}

// doors is what the ways in have in common. The zero value lets everybody in, unobserved.
type doors struct {
	authenticate  auth.Authenticate // nil: auth.Everybody
	proxies       peers.Proxies
	followers     *peers.Limiter // of sockets and event streams together; nil: any number
	operations    *peers.Limiter // on sockets and event streams; nil: any number
	introspection bool
	sockets       ws.Observer     // may be nil
	events        fanout.Observer // may be nil
	log           *slog.Logger
}

// mount puts the ways in on a schema. It is the whole seam between the two.
func mount(schema graphql.ExecutableSchema, d doors) (*waysIn, error) {
	hub := fanout.New(fanout.Config{Observer: d.events, Log: d.log})
	if d.followers == nil {
		d.followers = peers.NewLimiter(0, 0)
	}
	sockets, err := ws.New(ws.Config{
		Hub:          hub,
		Authenticate: d.authenticate,
		CheckOrigin:  func(*http.Request) bool { return true }, // httpserver has, for all ways in alike
		Proxies:      d.proxies,
		Limiter:      d.followers,
		Operations:   d.operations,
		Observer:     d.sockets,
		Log:          d.log,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare sockets: %w", err)
	}
	streams := sse.New(sse.Config{Hub: hub, Proxies: d.proxies, Limiter: d.followers, Operations: d.operations})
	present := api.NewErrorPresenter(d.log)
	handler, err := graphqlhttp.New(graphqlhttp.Config{
		Schema:        schema,
		Present:       present,
		Recover:       api.Recover,
		Extensions:    api.Extensions(present),
		Transports:    []graphql.Transport{sockets},
		Streams:       streams,
		Authenticate:  d.authenticate, // of event streams too
		Introspection: d.introspection,
		Log:           d.log,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare GraphQL over HTTP: %w", err)
	}
	return &waysIn{Handler: handler, subscriptions: hub.Subscriptions, sockets: sockets.Connections, streams: streams.Streams, shutdown: func(ctx context.Context) error {
		letLastEventsOut(ctx, hub)
		both := make(chan error, 1)
		go func() { both <- streams.Shutdown(ctx) }()
		err := sockets.Shutdown(ctx)
		return errors.Join(err, <-both)
	}}, nil
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
