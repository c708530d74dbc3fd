package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chathome/chathome/test/check"
)

// position is where a record lies.
type position struct {
	shard  int32
	offset int64
}

// readLog reads everything that lies in the topic now, with franz-go: nothing of the product's own reading.
func (w *world) readLog() ([]check.Record, error) {
	ends := map[int32]int64{}
	w.brokers.Lock()
	for _, p := range w.cluster.PartitionInfos(messages) {
		if p.HighWatermark > p.LogStartOffset {
			ends[p.Partition] = p.HighWatermark
		}
	}
	w.brokers.Unlock()
	cl, err := w.reader()
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var log []check.Record
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for len(ends) > 0 {
		f := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("the log was not read to its end: %v", ends)
		}
		f.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				log = append(log, check.Record{Shard: r.Partition, Offset: r.Offset, Value: r.Value})
			}
			if r.Offset >= ends[r.Partition]-1 {
				delete(ends, r.Partition)
			}
		})
	}
	return log, nil
}

func (w *world) reader() (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(w.addrs...), kgo.Dialer(w.cluster.Dial),
		kgo.ConsumeTopics(messages), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords(),
		kgo.MetadataMinAge(100*time.Millisecond))
}

// tail copies the log all the time, for runs that delete from it.
type tail struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	records map[position][]byte
	next    map[int32]int64
}

func (w *world) startTail() *tail {
	ctx, cancel := context.WithCancel(context.Background())
	t := &tail{cancel: cancel, done: make(chan struct{}), records: map[position][]byte{}, next: map[int32]int64{}}
	go func() {
		defer close(t.done)
		cl, err := w.reader()
		if err != nil {
			w.violated("the harness", "no reader: %v", err)
			return
		}
		defer cl.Close()
		for ctx.Err() == nil {
			f := cl.PollFetches(ctx)
			t.mu.Lock()
			f.EachRecord(func(r *kgo.Record) {
				if !r.Attrs.IsControl() {
					t.records[position{r.Partition, r.Offset}] = r.Value
				}
				t.next[r.Partition] = r.Offset + 1
			})
			t.mu.Unlock()
		}
	}()
	return t
}

func (t *tail) stop() {
	t.cancel()
	<-t.done
}

// all adds what only the tail has.
func (t *tail) all(log []check.Record) []check.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range log {
		t.records[position{r.Shard, r.Offset}] = r.Value
	}
	log = log[:0:0]
	for p, v := range t.records {
		log = append(log, check.Record{Shard: p.shard, Offset: p.offset, Value: v})
	}
	return log
}
