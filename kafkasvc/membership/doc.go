// Package membership says which shards this instance owns, and for how long it may say so.
//
// It runs a Kafka consumer group (kafka-go's ConsumerGroup) in which every server process is a member. A
// generation of the group is one distribution of the shards. From one generation to the next a Handler hears
// Assigned and Revoked, strictly in turns. Nothing is consumed through the group: the partitions are read and
// written elsewhere.
//
// Two things protect against two owners. Writes are protected by the log itself (compare-and-append), which
// is not this package's business. Reads are protected by the Lease: it is valid only while the coordinator
// cannot have given the shards to somebody else yet.
//
// Read it in this order: timeouts.go (what must hold between the times), assign.go (who gets what), balancer.go
// (the same as kafka-go wants it), lease.go (how long it holds), group.go (the life of a member), leave.go
// (how it ends), seat.go and conns.go (what kafka-go needs help with), reason.go (what went wrong, and what to do).
package membership
