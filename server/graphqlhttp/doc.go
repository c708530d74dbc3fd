// Package graphqlhttp serves GraphQL over HTTP: POST and GET as the GraphQL over HTTP draft says, and, through
// server/sse, event streams on the same address. gqlgen executes; this package decides what reaches it.
//
//	h, err := graphqlhttp.New(graphqlhttp.Config{
//		Schema:     schema,                     // a graphql.ExecutableSchema
//		Present:    present, Recover: recover,  // errors as the schema describes them
//		Extensions: extensions,
//		Transports: []graphql.Transport{ws},    // asked first: WebSocket
//		Streams:    sse.New(sse.Config{…}),
//		Introspection: true,
//	})
//	mux.Handle("/graphql", origins.Handler(h)) // server/origin
//
// The way of a request:
//
//	negotiate.go  which of our media types the client wants
//	request.go    method, content type, size: refused with a status and a hint, never an echo
//	params.go     JSON and Unicode, in one pass (server/jsonvalue)
//	executor.go   document from the cache, or scanned, parsed, measured and validated (server/limits)
//	persisted.go  automatic persisted queries
//	respond.go    one answer, compressed where that helps
//
// The Executor serves all transports alike, so that a limit holds on each of them.
//
// http.Server should have ReadHeaderTimeout, ReadTimeout and WriteTimeout set: requests here are short. Event
// streams lift both for their own connection and bound each write instead.
package graphqlhttp
