// Package sse streams the results of one GraphQL operation as server-sent events: the "distinct connections
// mode" of the graphql-sse protocol, over POST and GET, so that fetch clients and the browser's own
// EventSource both work.
//
// server/fanout executes and decides when an event is due; an event that many want is made once. This package
// gives each event its place on the wire:
//
//	event.go     what an event looks like
//	resume.go    Last-Event-ID: a reconnecting EventSource goes on behind the last event it has
//	server.go    admission, headers, life and end of a stream
//	socket.go    HTTP/1.1: the hijacked connection, one write per event
//	response.go  anything else (HTTP/2, HTTP/1.0): net/http's ResponseWriter
//
// A stream has no time limit. Instead each write has one: a peer that does not read is cut, and resumes by its
// cursor. A comment keeps idle streams alive in proxies and finds dead peers.
//
// Sources: https://github.com/enisdenjo/graphql-sse/blob/master/PROTOCOL.md,
// https://html.spec.whatwg.org/multipage/server-sent-events.html
package sse
