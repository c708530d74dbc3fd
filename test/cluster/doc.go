// Package cluster runs the built program as a cluster of processes on this machine: one embedded broker and some
// instances, on free loopback ports, each with a data directory and a log of its own. Harnesses start, stop, pause
// and kill them, and break the way between an instance and the broker.
//
// cluster.go is the whole, instance.go one chathome serve, process.go one process, guard.go what ends them all when
// the harness itself is killed, link.go a TCP proxy with faults, rewrite.go the addresses in Kafka's answers, which
// would lead around the proxy.
package cluster
