// Package graph is the GraphQL API: the schema, its resolvers, and how errors are told. It knows the domain and
// nothing of what stores it, and nothing of how requests come in.
//
// Read it in this order: root.graphqls and the types beside it (the contract), query.go, mutation.go and
// subscription.go (one resolver per root field), page.go and batch.go (how histories are cut), errors.go (the
// table of error codes), streamend.go (how a subscription ends). Package stream is the seam to transports.
package graph

//go:generate go tool -modfile=../tools/go.mod gqlgen generate
