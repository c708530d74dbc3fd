// Package domaintest is what tests need of a chat home: one that lives in memory and really behaves like one
// (Home), and the contract that every ChatHome has to keep (RunContract).
//
// Home holds no goroutine and no timer. Its switches move shards and inject faults:
//
//	h := domaintest.New(domaintest.Config{Shards: 4})
//	room := h.AddRoom("lobby")                    // created and announced
//	h.Post(room.ID, drafts...)                    // one group commit: one advance of the feed
//	h.Lock(room.Shard)                            // the tenure ends: feeds end, rooms answer ShardNotOwned
//	h.Load(room.Shard, 10, 100)                   // LOADING with progress
//	h.Open(room.Shard)                            // a new tenure
//	h.Inject(domaintest.Fault{Op: domaintest.OpSend, Err: &domain.OverloadedError{}, Times: 1})
//	other := h.Join(domain.Instance{ID: "b"})     // a second instance of the same house
//	h.Move(room.Shard, other)
package domaintest
