// Command serve serves the API over a home in memory, for looking at transports without Kafka.
package main

import (
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/99designs/gqlgen/graphql"

	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/graphiql"
	"github.com/chathome/chathome/server/graphqlhttp"
	"github.com/chathome/chathome/server/httpserver"
	"github.com/chathome/chathome/server/sse"
	"github.com/chathome/chathome/server/ws"
)

func main() {
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	present := graph.NewErrorPresenter(logger)
	hub := fanout.New(fanout.Config{})
	sockets, err := ws.New(ws.Config{Hub: hub})
	if err != nil {
		log.Fatal(err)
	}
	h, err := graphqlhttp.New(graphqlhttp.Config{
		Schema:        graph.New(domaintest.New(domaintest.Config{})),
		Present:       present,
		Recover:       graph.Recover,
		Extensions:    graph.Extensions(present),
		Transports:    []graphql.Transport{sockets},
		Streams:       sse.New(sse.Config{Hub: hub}),
		Introspection: true,
		Log:           logger,
	})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	s := httpserver.New(httpserver.Config{
		GraphQL: h, Page: page(), Ready: func() []httpserver.Reason { return nil },
		Origins: httpserver.Origins{Advertised: "http://" + os.Args[1], Local: true}, Limits: httpserver.DefaultLimits(), Log: logger,
	})
	log.Fatal(s.Serve(l))
}

func page() http.Handler {
	p, err := graphiql.New()
	if err != nil {
		log.Fatal(err)
	}
	return p
}
