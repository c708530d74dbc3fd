package directory

import (
	"context"
	"time"
)

// checks looks from time to time whether the topics still are what they were.
func (d *Directory) checks(ctx context.Context) {
	t := time.NewTicker(d.cfg.CheckInterval)
	defer t.Stop()
	partitions := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if d.Ready() != nil {
			continue // the tail looks by itself
		}
		if err := d.checkLife(ctx); err == nil {
			partitions = d.checkPartitions(ctx, partitions)
		}
	}
}

// checkPartitions raises an alarm when the messages topic has got another number of partitions than it had at the
// last look, and it is not the pinned one.
func (d *Directory) checkPartitions(ctx context.Context, last int) int {
	if d.cfg.Partitions == nil {
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.RPCTimeout)
	defer cancel()
	n, err := d.cfg.Partitions(ctx)
	if err != nil || n <= 0 {
		return last
	}
	if want := d.ShardCount(); n != last && n != want {
		d.cfg.Log.Error("the messages topic has another number of partitions than the directory pins: going on with the pinned number",
			"partitions", n, "shards", want)
		d.cfg.Hooks.Alarm(Alarm{Kind: AlarmPartitions, Have: int64(n), Want: int64(want)})
	}
	return n
}
