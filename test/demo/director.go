package main

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/chathome/chathome/test/cluster"
)

// direct stops, kills and starts instances for the time of the demo. The plan depends on the seed alone, its
// moments also on the machine. In the end all run.
func direct(ctx context.Context, c *cluster.Cluster, v *view, o options) {
	ctx, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	r := rand.New(rand.NewPCG(o.seed, 2))
	sleep := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-ctx.Done():
			return false
		}
	}
	defer func() {
		for _, i := range c.Instances {
			if !i.Running() {
				start(i, v, "")
			}
		}
	}()
	if !sleep(o.duration / 15) {
		return
	}
	for kill := r.IntN(2) == 0; ; kill = !kill { // in turn: both are seen also in a short demo
		// Not all at once: somebody has to be there.
		first := c.Instances[r.IntN(len(c.Instances))]
		out := []*cluster.Instance{first}
		if len(c.Instances) > 2 && r.IntN(4) == 0 {
			if second := c.Instances[r.IntN(len(c.Instances))]; second != first {
				out = append(out, second)
			}
		}
		for _, i := range out {
			if kill {
				v.event("kill -9 %s (process %d)", i.Name, i.PID())
				v.mark(i.Name, "killed")
				if err := i.Kill(); err != nil {
					v.fault(err)
				}
			} else {
				v.event("stop %s (process %d)", i.Name, i.PID())
				v.mark(i.Name, "stopped")
				if err := i.Stop(stopLimit); err != nil {
					v.fault(err)
				}
			}
		}
		away := sleep(time.Duration(r.Int64N(int64(o.session) * 2)))
		for _, i := range out {
			start(i, v, " again")
		}
		// Time to load and to serve, so that the next one hits a cluster that works, now and then one that does not.
		if !away || !sleep(o.session/2+time.Duration(r.Int64N(int64(o.session)*2))) {
			return
		}
	}
}

func start(i *cluster.Instance, v *view, again string) {
	v.mark(i.Name, "")
	if err := i.Start(); err != nil {
		v.fault(err)
		return
	}
	v.event("start %s%s (process %d)", i.Name, again, i.PID())
}
