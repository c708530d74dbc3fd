// Package directory is the directory topic as every instance sees it: which life of the topics this is, how many
// shards it has, which rooms there are, and who owns which shard.
//
// One goroutine, the tail, reads the topic and alone changes the view (tail.go): what a record changes is
// decided by the pure fold (fold.go) and written to a Store in one batch with the position behind it. Everything
// else answers from that view, also while the gate is locked. Before a "no" leaves, a round (round.go)
// makes sure that the view reaches the topic's present end.
//
//	config.go    what it needs, what it reports     life.go      the first Home, and another life
//	codec.go     bytes <-> records                  tail.go      from the log into the store
//	fold.go      records -> changes                 round.go     "read to the present end", shared
//	store.go     where the view is kept             announce.go  rooms and owners into the log
//	list.go      domain.Directory                   owner.go     who owns a shard
//	check.go     looks from time to time
package directory
