package kafkatest

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type counted struct {
	key   int16
	topic string
}

type counter struct {
	mu sync.Mutex
	n  map[counted]int
}

func (c *counter) add(r *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = make(map[counted]int)
	}
	c.n[counted{key: r.key}]++
	for _, t := range r.topics {
		c.n[counted{r.key, t}]++
	}
}

func (c *counter) of(key int16, topic string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[counted{key, topic}]
}

// request is what the switches know of one frame.
type request struct {
	key        int16
	clientID   string
	topics     []string
	partitions []int32
}

// parse reads a whole frame without its length.
func parse(frame []byte) request {
	b := kbin.Reader{Src: frame}
	r := request{key: b.Int16()}
	version := b.Int16()
	b.Int32() // correlation id
	if id := b.NullableString(); id != nil {
		r.clientID = *id
	}
	if r.key != kmsg.Produce.Int16() && r.key != kmsg.Fetch.Int16() {
		return r
	}
	k := kmsg.RequestForKey(r.key)
	k.SetVersion(version)
	if k.IsFlexible() {
		kmsg.SkipTags(&b)
	}
	if k.ReadFrom(b.Src) != nil {
		return r
	}
	switch k := k.(type) {
	case *kmsg.ProduceRequest:
		for _, t := range k.Topics {
			r.topics = append(r.topics, t.Topic)
			for _, p := range t.Partitions {
				r.partitions = append(r.partitions, p.Partition)
			}
		}
	case *kmsg.FetchRequest:
		for _, t := range k.Topics {
			r.topics = append(r.topics, t.Topic)
			for _, p := range t.Partitions {
				r.partitions = append(r.partitions, p.Partition)
			}
		}
	}
	return r
}
