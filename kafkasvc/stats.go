package kafkasvc

import (
	"time"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/directory"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/membership"
)

// Stats is a home at one moment: how things stand, and what was counted since its start. It holds nothing of a room
// or a user.
type Stats struct {
	Ready      bool
	Gate       domain.ShardState                   // ShardLocked, ShardLoading or ShardOpen: of the whole instance
	Shards     map[domain.ShardState]int           // how many of those assigned here are in which state
	GateTime   map[domain.ShardState]time.Duration // how long the gate was in which state
	ShardTime  map[domain.ShardState]time.Duration // the same of the shards assigned here, added up
	Refused    map[domain.ShardState]int64         // requests that the gate did not let pass, by the shard's state
	ShardCount int                                 // of the home, pinned for ever; 0 until it is known
	Rooms      int64                               // in the directory
	StoreBytes uint64                              // of the local store

	Generations int64
	Tenures     int64 // begun
	Fences      int64 // tenures that ended because another instance took over
	Alarms      map[string]int64

	// The lease; Leased is false where there is no generation, and LeaseMargin below zero where it has lapsed.
	Leased      bool
	LeaseMargin time.Duration
	LeaseLapses int64
	JoinFailed  int64 // attempts to join the group

	// Loading.
	LoadingShards     int
	LoadingLeft       int64 // records that the loading shards still have to read
	LoadingRatio      float64
	LoadedRecords     int64
	LoadedBytes       int64
	Loads             Histogram        // seconds from the start of a tenure to its opening
	Records           map[string]int64 // read from the log, by what they were
	DirectoryRebuilds int64

	// Writing.
	Messages, NewRooms [WriteOutcomes]int64
	Batches            Histogram // records of acknowledged batches
	Appends            Histogram // seconds until a copy of a batch was acknowledged
	Resends            int64     // copies of a batch after its first one
	Gaps               int64     // times that a batch landed elsewhere and the log between was read

	KafkaErrors map[string]int64 // by Kafka's name of the code, "connection" or "timeout"
}

// Histogram of values in buckets.
type Histogram struct {
	Count   uint64
	Sum     float64
	Buckets map[float64]uint64 // how many values were at most this much
}

// alarmKinds are those that Stats names from the start, so that the first alarm of a kind shows as a change.
func alarmKinds() []string {
	return []string{
		alarmTruncated, alarmHole, alarmStore, alarmRefused, alarmAnotherLife, alarmMisfit,
		string(directory.AlarmShardWentBack), string(directory.AlarmDirectoryDamaged), string(directory.AlarmPartitions),
		membership.AlarmForeignMember.String(), membership.AlarmDuplicateInstance.String(), membership.AlarmBadAssignment.String(),
	}
}

// Stats takes a snapshot. It is meant for every few seconds, not for every request.
func (h *Home) Stats() Stats {
	s := Stats{
		Ready:       len(h.Ready()) == 0,
		Shards:      map[domain.ShardState]int{},
		ShardCount:  h.dir.ShardCount(),
		Rooms:       int64(h.dir.Feed().Tip()),
		StoreBytes:  h.store.DiskBytes(),
		Generations: h.counts.Generations.Load(),
		Alarms:      map[string]int64{},
		Records:     map[string]int64{},
		Loads:       newHistogram(loadBounds(), float64(time.Second)),
		Batches:     newHistogram(batchBounds(), 1),
		Appends:     newHistogram(appendBounds(), float64(time.Second)),
		KafkaErrors: h.cluster.Failures(),
	}
	h.gate.describe(&s)
	for _, kind := range alarmKinds() {
		s.Alarms[kind] = 0
	}
	h.counts.Alarms.Range(func(kind, n any) bool {
		s.Alarms[kind.(string)] = n.(counter).Load()
		return true
	})
	s.DirectoryRebuilds = h.dir.Stats().Rebuilds
	h.mu.Lock()
	t := h.tenancy
	h.mu.Unlock()
	if t != nil && t.gen != nil {
		s.LeaseMargin, s.Leased = t.gen.Lease.Margin()
	}
	if group := h.group.Load(); group != nil {
		st := group.Status()
		s.JoinFailed, s.LeaseLapses = int64(st.AllFailures), int64(st.Lapses)
	}
	for v := range local.Verdict(len(local.Tally{})) {
		s.Records[v.String()] = 0
	}
	for _, shard := range h.all() {
		shard.counts.addTo(&s)
	}
	return s
}

type counter interface{ Load() int64 }

// addTo adds what one shard counted.
func (c *shardCounters) addTo(s *Stats) {
	for o := range WriteOutcomes {
		s.Messages[o] += c.writes[writeMessage][o].Load()
		s.NewRooms[o] += c.writes[writeRoom][o].Load()
	}
	for v := range c.records {
		s.Records[local.Verdict(v).String()] += c.records[v].Load()
	}
	s.Tenures += c.tenures.Load()
	s.Fences += c.fences.Load()
	s.Resends += c.resends.Load()
	s.Gaps += c.gaps.Load()
	s.LoadedRecords += c.loadedRecords.Load()
	s.LoadedBytes += c.loadedBytes.Load()
	c.loads.addTo(&s.Loads, loadBounds(), float64(time.Second))
	c.batches.addTo(&s.Batches, batchBounds(), 1)
	c.appends.addTo(&s.Appends, appendBounds(), float64(time.Second))
}

func newHistogram(b bounds, unit float64) Histogram {
	h := Histogram{Buckets: make(map[float64]uint64, len(b))}
	for _, upper := range b {
		h.Buckets[float64(upper)/unit] = 0
	}
	return h
}

func (h *histogram) addTo(to *Histogram, b bounds, unit float64) {
	var below uint64
	for i, upper := range b {
		below += uint64(h.buckets[i].Load())
		to.Buckets[float64(upper)/unit] += below
	}
	to.Count += below + uint64(h.buckets[len(b)].Load())
	to.Sum += float64(h.sum.Load()) / unit
}

// stateTimes adds up how long the gate, and the shards assigned here, were in which state.
type stateTimes struct {
	since     time.Time
	gate      domain.ShardState
	shards    [shardStates]int
	gateTime  [shardStates]time.Duration
	shardTime [shardStates]time.Duration
}

const shardStates = domain.ShardOpen + 1

// note adds the time since the last note to the states of then, and remembers those of v.
func (t *stateTimes) note(v *view, now time.Time) {
	if !t.since.IsZero() {
		passed := now.Sub(t.since)
		t.gateTime[t.gate] += passed
		for state, n := range t.shards {
			t.shardTime[state] += passed * time.Duration(n)
		}
	}
	t.since, t.gate, t.shards = now, v.gateState(), [shardStates]int{}
	for s := range v.places {
		t.shards[v.state(s)]++
	}
}

// gateState is the state of the whole gate.
func (v view) gateState() domain.ShardState {
	switch {
	case v.generation == nil:
		return domain.ShardLocked
	case v.opened:
		return domain.ShardOpen
	}
	return domain.ShardLoading
}

// describe fills in what the gate knows.
func (g *gate) describe(s *Stats) {
	g.mu.Lock()
	v := g.view.Load()
	g.times.note(v, time.Now())
	times := g.times
	g.mu.Unlock()
	s.Gate = v.gateState()
	for id := range v.places {
		s.Shards[v.state(id)]++
	}
	s.GateTime, s.ShardTime, s.Refused = map[domain.ShardState]time.Duration{}, map[domain.ShardState]time.Duration{}, map[domain.ShardState]int64{}
	for state := range shardStates {
		s.GateTime[state], s.ShardTime[state] = times.gateTime[state], times.shardTime[state]
		s.Refused[state] = g.refused[state].Load()
	}
	var loaded, target domain.Offset
	for _, p := range v.places {
		if p.phase == phaseLoading {
			progress := p.tenure.progress()
			loaded, target = loaded+progress.Loaded, target+progress.Target
			s.LoadingShards++
		}
	}
	s.LoadingLeft = int64(max(0, target-loaded))
	s.LoadingRatio = domain.Progress{Loaded: loaded, Target: target}.Ratio()
}
