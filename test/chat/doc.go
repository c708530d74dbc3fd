// Package chat is a client of chathome as its users write one: GraphQL over WebSocket, retries, resume. It notes
// everything that it sends and gets for the judge (package check). The demo, the torture harness and the tests on
// real brokers drive a cluster with it.
//
// net.go is the run and what breaks between clients and instances, socket.go one graphql-transport-ws connection, api.go the operations, chatter.go who sends and reads,
// follower.go who subscribes.
package chat
