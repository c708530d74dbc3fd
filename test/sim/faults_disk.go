package sim

import (
	"math/rand/v2"
	"time"
)

// What happens to the local disks.
func diskFaults() []*fault {
	return []*fault{
		{name: "disk full", length: 6 * time.Second, strike: diskFull},
		{name: "disk reads fail", length: 6 * time.Second, strike: func(w *world, r *rand.Rand, length time.Duration) int {
			n, _ := victim(w, r)
			if n == nil {
				return 0
			}
			before := n.disk.failedReads.Load()
			n.leave()
			n.disk.bad.Store(true)
			started := n.start()
			time.Sleep(length)
			n.disk.bad.Store(false)
			if started != nil {
				n.restart(w)
			}
			return int(n.disk.failedReads.Load() - before)
		}},
		{name: "bits flipped on the disk", length: time.Second, strike: func(w *world, r *rand.Rand, length time.Duration) int {
			n, l := victim(w, r)
			if n == nil || !n.crash(l, r, r.IntN(2) == 0) {
				return 0
			}
			time.Sleep(length)
			files := 0
			n.between(func() { files = n.disk.damage(r) })
			n.restart(w)
			return files
		}},
		{name: "bits flipped while reading", length: 10 * time.Second, strike: func(w *world, r *rand.Rand, length time.Duration) int {
			n, _ := victim(w, r)
			if n == nil {
				return 0
			}
			before := n.disk.flipped.Load()
			n.leave()
			n.disk.flip.Store(int64(1 + r.IntN(4)))
			n.restart(w)
			time.Sleep(length)
			n.disk.flip.Store(0)
			return int(n.disk.flipped.Load() - before)
		}},
	}
}

// diskFull: no space is left. Pebble keeps much in memory, so a stop and a start in that state belong to it.
func diskFull(w *world, r *rand.Rand, length time.Duration) int {
	n, _ := victim(w, r)
	if n == nil {
		return 0
	}
	before := n.disk.failedWrites.Load()
	n.disk.full.Store(true)
	time.Sleep(length / 2)
	if r.IntN(2) == 0 {
		n.leave()
		if err := n.start(); err != nil {
			w.note(kindNode, n.id, "does not start: "+err.Error())
		}
	}
	time.Sleep(length / 2)
	n.disk.full.Store(false)
	n.restart(w)
	return int(n.disk.failedWrites.Load() - before)
}
