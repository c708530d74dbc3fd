// Package kafkasvc keeps chat rooms on Kafka partitions: it is the ChatHome over Kafka.
//
// An instance owns a shard for a tenure: from the takeover record that it appends until the generation ends,
// another instance takes over, or the log turns out not to be the one it knows. One goroutine, the shard's
// writer, appends to the shard's partition; everybody else hands it commands. The log is the truth: the local
// store is a cache that may be deleted at any time.
//
// The life of a shard, by file:
//
//	membership/   which shards are this instance's, and for how long (the lease)
//	home.go       starts and ends everything; one keeper goroutine a shard
//	gate.go       the lock: the only place that decides who may pass
//	keeper.go     one shard in one generation: take over, load, serve, and again after a fault
//	takeover.go   the record that makes this instance the owner
//	loading.go    from the locally stored offset to the takeover
//	writer.go     group commit: one produce request at a time
//
// The way of a message:
//
//	room.go       passes the draft to the writer's queue and waits
//	queue.go      bounded; a request that gives up leaves it here
//	decide.go     new, stored before, or another text: pure
//	settle.go     what the log's answer means: pure
//	rooms.go      applied: the room's newest serial, and a wake-up for who follows it
//	feed/         who follows a list is woken
//
// Lock order: gate.mu, then shard.mu, then queue.mu; none is held across I/O except shard.mu around the local
// store's unsynced commit, which is what makes "only the current tenure commits" one critical section.
package kafkasvc
