// Package ws serves GraphQL over WebSockets, with the subprotocol graphql-transport-ws: queries, mutations
// and subscriptions.
package ws
