// Package kafkalog is everything that talks to Kafka except the loop of the consumer group: append one batch,
// read a partition, ask for its bounds, heartbeat, commit offsets, create and check topics.
//
// It stands on kafka-go's protocol package, not on its Client, Transport and Conn. Those hide why a request
// failed, poll metadata several times a second, decode fetch answers in goroutines whose panics end the process,
// and check no checksums; a log whose records are judged by their offset needs to know exactly what was written.
// Nothing in here has a goroutine of its own beyond a request, and nothing ever repeats a produce request.
//
// Read it in this order: cluster.go (what it is), conn.go and pool.go (connections), route.go and contact.go
// (which broker), append.go and batch.go (the way in), reader.go, fetch.go and decode.go (the way out), group.go
// (heartbeat and commits), topics.go and check.go (start), reason.go (what went wrong, in words).
package kafkalog
