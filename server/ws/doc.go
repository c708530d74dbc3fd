// Package ws serves GraphQL over WebSockets with the subprotocol graphql-transport-ws: queries, mutations and
// subscriptions. https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md is the protocol; where it is
// silent, the reference server of the npm package graphql-ws is followed.
//
//	        net/http ── upgrade ──▶ Transport.Do ── go conn.run, and the handler returns
//	                                   │ hijack.go: small buffers, early bytes
//	                                   ▼
//	client ═══ socket ══▶ coder/websocket ──▶ conn.run ──▶ parse ──▶ handle
//	   ▲                   frames, control     reader       message    protocol.go
//	   ║                                                                 │ subscribe
//	   ║                                                                 ▼
//	   ╚═══ wire ◀── operation (a fanout.Sink) ◀── fanout.Subscription ◀─┘ on a goroutine of its own
//	        frames, deadlines   {"id":…,"type":"next","payload":…}
//
// coder/websocket does the handshake, reads, and answers control frames. What is sent goes past it, straight to
// the wire: an event that a thousand clients want is one payload, and each gets it with a single write(2) that
// does not wait. What the socket does not take at once goes out on a goroutine that ends with the write deadline.
//
// An idle connection is one goroutine with a small stack, and no timer: a pinger visits all of them.
//
//	transport.go  admission, upgrade, shutdown       pinger.go   finds silent peers
//	conn.go       the reader, the end                wire.go     whole frames, without waiting
//	closing.go    close frames, deadlines, drain     frame.go    frames as bytes
//	protocol.go   init, subscribe, complete          close.go    close codes, and what clients do after them
//	operation.go  one operation as a sink            message.go   what clients may say
//
// Lock order: conn.mu is never held while anything is written, and never together with another lock.
package ws
