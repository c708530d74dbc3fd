// Command kafkaload measures the built program on one real Apache Kafka broker beside raw kafka-go on the same
// broker, in one run, and prints tables in Markdown (make bench-kafka; docs/PERFORMANCE.md explains them):
//
//	go run ./test/kafkaload -program bin/chathome
//	go run ./test/kafkaload -program bin/chathome -only load
//
// Everything is seen from outside, as a client or an operator sees it: answers on sockets, the log, metrics, /proc.
// It needs Java and the jars of Kafka (make kafka fetches them), and Linux for /proc.
//
//	main.go     flags, the order of things
//	stage.go    the broker, homes on it, the topics
//	table.go    tables, quantiles, the machine
//	process.go  processor time and memory from /proc, metrics, lines of the log
//	sends.go    sends beside raw produce: connections that send and wait
//	socket.go   one of these connections
//	produce.go  raw produce with the same batches
//	load.go     cold loads beside raw reads, and the return of a shard
//	fill.go     two million messages, written without an instance
//	read.go     raw read
//	moves.go    handovers, joins and crashes as senders see them
//	sender.go   one of these senders
//
// Clients, broker and program share the machine: compare rows of one run, not runs.
package main
