package graphqlhttp

import (
	"math"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cache keeps what was used last, bounded in bytes: a bound on entries would let a client fill the memory
// with large ones. Safe for concurrent use.
type cache[V any] struct {
	mu    sync.Mutex
	lru   *simplelru.LRU[string, entry[V]]
	bytes int
	limit int
}

type entry[V any] struct {
	value V
	bytes int
}

// entryBytes is what an entry costs beside key and value: list element, map slot, headers.
const entryBytes = 200

// newCache makes a cache of at most limit bytes; 0 keeps nothing.
func newCache[V any](limit int) *cache[V] {
	c := &cache[V]{limit: limit}
	lru, err := simplelru.NewLRU(math.MaxInt, func(_ string, e entry[V]) { c.bytes -= e.bytes })
	if err != nil {
		panic(err) // only for a size below 1
	}
	c.lru = lru
	return c
}

func (c *cache[V]) get(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.lru.Get(key)
	return e.value, ok
}

// add keeps value, whose size beside the key is given. What is larger than an eighth of the cache is not
// kept: it would push out everything else.
func (c *cache[V]) add(key string, value V, bytes int) {
	bytes += len(key) + entryBytes
	if bytes > c.limit/8 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Remove(key) // an entry that is replaced is not reported as evicted
	c.lru.Add(key, entry[V]{value, bytes})
	c.bytes += bytes
	for c.bytes > c.limit {
		c.lru.RemoveOldest()
	}
}

// size is the number of bytes held.
func (c *cache[V]) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes
}
