// Package fanout sends one event to many subscribers, executed and encoded once, for WebSocket and SSE alike.
//
//	resolver ── stream.Follow(feed, position, read) ──┐ registers only
//	                                                  ▼
//	 Hub ─┬─ group: one feed, one document, one set of variables     (key.go says who belongs together)
//	      │    ring: the newest encoded events, by the position they start from          (ring.go)
//	      │    ├─ lane: up to LaneSize members ── round ── Sink, Sink, Sink …              (lane.go)
//	      │    │        one member executes and encodes, all at its position send the bytes
//	      │    └─ lane …
//	      └─ group …
//	                                     member behind the others ── catchUp ── Sink    (catchup.go)
//
// gqlgen stays as it is: every subscription keeps an ordinary execution of its own (subscription.go). A member
// is a position, not a queue: while its client is slow nothing waits for it, and when the client is ready again it
// gets one larger event. So a slow client costs its connection and at most one reference to a shared
// payload.
//
// A lane has no goroutine while nothing happens. A wake-up of the feed starts one; it walks the members, writes to each without
// waiting, and ends when all are at the tip. Whoever stands elsewhere (it resumed, or it was slow)
// gets a goroutine of its own until it has caught up; those take turns, fewer at once than there are processors.
//
// Before each round and after each execution the feed is asked whether it still stands: its answer includes
// the lease of the shard. When it has ended, each member gets one last event from its own execution, with
// the error, and is told that it is complete.
//
// Lock order: Hub.mu, then group.mu. Neither is held while something is executed, read or written.
package fanout
