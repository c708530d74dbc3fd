// Package local keeps what an instance has folded out of the logs: messages, their index by client id, rooms and
// the position in each shard's log, and the directory. It is a cache. The log is the truth, and everything in here
// may be deleted at any time at the cost of loading again.
//
// The way in: Fold (fold.go) is the only code that turns records of a log into local data, whether an instance
// loads, reads a gap or applies its own acknowledged writes. Its Commit (commit.go) writes what changed and the
// new Position in one Pebble batch, unsynced.
//
// The way out: Shard (shard.go) answers rooms, pages of history and messages by client id. What a read costs does
// not depend on how long a history is.
//
// What lies where: keys.go draws the key space, page.go and index.go the two structures that are grown with
// Pebble's Merge (merger.go), position.go the chain that shows whether a commit got lost in between. directory.go
// holds the directory's key space.
//
// What can go wrong (fault.go, freeze.go): errors of the disk never stop the process and never give a wrong
// answer. ErrCorrupt without a Fault concerns one shard: Drop it and load it again. A Fault concerns the whole
// store: DropAll starts it anew.
package local
