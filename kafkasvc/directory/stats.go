package directory

import "sync/atomic"

// Stats count since the start of the process, for metrics.
type Stats struct {
	Rooms, Owners, Repeated, Outdated int64 // records by what they did
	Junk, Unknown, Foreign            int64 // records skipped
	Lives, Rebuilds                   int64 // views dropped
	Rounds, Barriers                  int64 // readings to the present end, and records appended for them
	Retries                           int64 // appends that failed
}

type stats struct {
	rooms, owners, lives, rebuilds, rounds, barriers, retries atomic.Int64
	verdicts                                                  [verdicts]atomic.Int64
}

func (s *stats) fold(f *fold) {
	s.rooms.Add(int64(len(f.rooms)))
	s.owners.Add(f.counts[changed] - int64(len(f.rooms)))
	for v, n := range f.counts {
		s.verdicts[v].Add(n)
	}
}

// Stats are the directory's counters.
func (d *Directory) Stats() Stats {
	s := &d.stats
	return Stats{
		Rooms: s.rooms.Load(), Owners: s.owners.Load(),
		Repeated: s.verdicts[repeated].Load(), Outdated: s.verdicts[outdated].Load(),
		Junk: s.verdicts[junk].Load(), Unknown: s.verdicts[unknown].Load(), Foreign: s.verdicts[foreign].Load(),
		Lives: s.lives.Load(), Rebuilds: s.rebuilds.Load(),
		Rounds: s.rounds.Load(), Barriers: s.barriers.Load(), Retries: s.retries.Load(),
	}
}
