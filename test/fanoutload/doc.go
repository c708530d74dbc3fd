// Command fanoutload measures how one room's messages reach many WebSocket subscribers, chathome beside
// Centrifugo in one run, with the same generator and the same phases, and prints a table.
//
//	go run ./test/fanoutload                        # chathome over a home in memory
//	go run ./test/fanoutload -server bin/chathome   # the program itself with its embedded broker
//	go run ./test/fanoutload -centrifugo build      # and Centrifugo, built from the Go module registry
//
// The generator reads all subscribers with one epoll thread on raw sockets: one with a goroutine a socket
// would take more of the processor than any server that is measured. It checks that every subscriber gets
// every message once and in order.
//
//	main.go       flags, the order of things, the table
//	target.go     what differs between chathome and Centrifugo; starting and stopping them
//	memory.go     the server over a home in memory, as a child process
//	phase.go      a fixed rate, or writers that keep the server saturated
//	herd.go       all subscribers come back at once, each from another cursor
//	restart.go    the same after the server was stopped and started again
//	comeback.go   the side of those who come back
//	late.go       how late the machine lets the generator run, which is in all its times
//	subscriber.go the subscribers' side: handshake, epoll loop, checks
//	writer.go     the writers' side
//	socket.go     raw sockets and frames
//	measure.go    histogram, processor time and memory from /proc
//
// Times and shares are those of a shared, small machine: compare rows of one run, not runs.
package main
