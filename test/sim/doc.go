// Package sim runs whole instances of chathome for hours of simulated time, with everything going wrong that can.
//
// The instances are the real kafkasvc over kafka-go, the cluster is kfake over an in-memory network, and all of it
// lives in a testing/synctest bubble: an hour takes some seconds. Clients write, read and follow rooms all the time;
// a plan drawn from a seed injects faults (faults.go lists every kind). Then the faults stop, everything must open
// and complete within a bound, and package check compares the four views: the answers, two subscribers a room, the
// history walked from its start, and the log as an independent reader finds it.
//
// The seed decides the plan of faults and what clients want. Time is deterministic, the interleaving of goroutines
// is not: a seed that failed may need a few runs to fail again.
//
//	config.go      what a run is
//	world.go       a run from its beginning to its end
//	lock.go        a mutex for fake time
//	node.go        an instance and its lives: start, stop, crash, pause
//	disk.go        the local disk of an instance, which outlives it
//	writer.go      clients that write and read
//	rooms.go       clients that make rooms and look things up
//	subscriber.go  clients that follow
//	plan.go        when which fault happens
//	faults*.go     the faults
//	deleting.go    an administrator who deletes records
//	lives.go       an administrator who deletes the topics
//	settle.go      after the faults: does everything open, complete, agree?
//	log.go         the independent reader of the log
//	watchdog.go    does simulated time go on?
//	report.go      what a run measured, and what is kept of one that failed
//	ledger.go      sums over runs
package sim
