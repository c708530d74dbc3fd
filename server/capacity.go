package main

import (
	"log/slog"
	"math"
	"syscall"
)

// capacity is how many clients there may be at once: followers are sockets and event streams, connections are those
// of HTTP beside them. Each costs a file descriptor, and so do the local store's files and the connections to
// Kafka, which strangers must never starve.
type capacity struct {
	followers, followersPerAddress     int
	connections, connectionsPerAddress int
}

// The most there may be. A whole company may stand behind one address. A few more connections than followers, so
// that who comes for one too many is told so.
const (
	maxFollowers   = 16_384
	maxConnections = 20_000
	ownFiles       = 4_096 // descriptors that are kept for the rest, or a quarter of all where there are few
	addressShare   = 4     // one address may take this part of all
	operationsEach = 6     // operations for each follower that there may be: some have a hundred, most have few
)

// capacityOf shares so many descriptors out.
func capacityOf(files int) capacity {
	left := files - min(ownFiles, files/4)
	followers := min(maxFollowers, left*5/11)
	connections := min(maxConnections, left-followers)
	return capacity{
		followers: followers, followersPerAddress: max(followers/addressShare, 1),
		connections: connections, connectionsPerAddress: max(connections/addressShare, 1),
	}
}

// allows is what the operating system lets this process have.
func allows(log *slog.Logger) capacity {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		log.Warn("cannot tell how many files may be open; assuming 1024", "err", err)
		limit.Cur = 1024
	}
	c := capacityOf(int(min(limit.Cur, math.MaxInt32)))
	if c.followers < maxFollowers {
		log.Info("the limit on open files bounds how many clients there may be at once; raise it (ulimit -n) for more",
			"files", limit.Cur, "followers", c.followers, "connections", c.connections)
	}
	return c
}
