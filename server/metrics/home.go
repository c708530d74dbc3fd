package metrics

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc"
)

// emit takes one sample of a metric: the value of its label, "" where it has none, and its own.
type emit func(label string, value float64)

// metric turns a part of a home's snapshot into samples.
type metric struct {
	name, help string
	label      string // "": none
	counter    bool   // else a gauge
	read       func(s *kafkasvc.Stats, put emit)
}

// distribution is a metric of many values in buckets.
type distribution struct {
	name, help string
	read       func(s *kafkasvc.Stats) kafkasvc.Histogram
}

func state(s domain.ShardState) string { return strings.ToLower(s.String()) }

func one(read func(s *kafkasvc.Stats) float64) func(*kafkasvc.Stats, emit) {
	return func(s *kafkasvc.Stats, put emit) { put("", read(s)) }
}

func seconds(states map[domain.ShardState]time.Duration, put emit) {
	for s, d := range states {
		if s != domain.ShardNotAssigned {
			put(state(s), d.Seconds())
		}
	}
}

func outcomes(counts *[kafkasvc.WriteOutcomes]int64, put emit) {
	for o, n := range counts {
		put(kafkasvc.WriteOutcome(o).String(), float64(n))
	}
}

func words(counts map[string]int64, put emit) {
	for word, n := range counts {
		put(strings.ReplaceAll(strings.ToLower(word), " ", "_"), float64(n))
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// homeMetrics are all that a home's snapshot holds but distributions.
func homeMetrics() []metric {
	return append(gateMetrics(), logMetrics()...)
}

func gateMetrics() []metric {
	return []metric{
		{name: "chathome_ready", help: "1 while this instance serves what is assigned to it, as /readyz says.",
			read: one(func(s *kafkasvc.Stats) float64 { return truth(s.Ready) })},
		{name: "chathome_gate_state", help: "1 at the state that the gate of this instance is in.", label: "state",
			read: func(s *kafkasvc.Stats, put emit) {
				for _, st := range []domain.ShardState{domain.ShardLocked, domain.ShardLoading, domain.ShardOpen} {
					put(state(st), truth(st == s.Gate))
				}
			}},
		{name: "chathome_shards", help: "Shards assigned to this instance, by their state.", label: "state",
			read: func(s *kafkasvc.Stats, put emit) {
				for _, st := range []domain.ShardState{domain.ShardLocked, domain.ShardLoading, domain.ShardOpen} {
					put(state(st), float64(s.Shards[st]))
				}
			}},
		{name: "chathome_home_shards", help: "Shards of the home, pinned for ever; 0 until it is known.",
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.ShardCount) })},
		{name: "chathome_gate_seconds_total", help: "Time that the gate was in each state.", label: "state", counter: true,
			read: func(s *kafkasvc.Stats, put emit) { seconds(s.GateTime, put) }},
		{name: "chathome_shard_seconds_total", help: "Time that the shards assigned to this instance were in each state, added up.", label: "state", counter: true,
			read: func(s *kafkasvc.Stats, put emit) { seconds(s.ShardTime, put) }},
		{name: "chathome_gate_refused_total", help: "Requests that the gate answered with SHARD_NOT_OWNED, by the shard's state here.", label: "state", counter: true,
			read: func(s *kafkasvc.Stats, put emit) {
				for st, n := range s.Refused {
					if st != domain.ShardOpen {
						put(state(st), float64(n))
					}
				}
			}},
		{name: "chathome_generations_total", help: "Generations of the consumer group that this instance was part of.", counter: true,
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.Generations) })},
		{name: "chathome_group_join_failures_total", help: "Attempts to join the consumer group that failed.", counter: true,
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.JoinFailed) })},
		{name: "chathome_lease_margin_seconds", help: "How long reads may be answered without another heartbeat; below zero where the lease has lapsed, absent without a generation.",
			read: func(s *kafkasvc.Stats, put emit) {
				if s.Leased {
					put("", s.LeaseMargin.Seconds())
				}
			}},
		{name: "chathome_lease_lapses_total", help: "Times that the lease ran out because no heartbeat was answered.", counter: true,
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.LeaseLapses) })},
		{name: "chathome_tenures_total", help: "Ownerships of a shard that began here.", counter: true,
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.Tenures) })},
		{name: "chathome_fences_total", help: "Ownerships that ended because another instance took the shard over.", counter: true,
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.Fences) })},
		{name: "chathome_alarms_total", help: "What a person has to look at, by kind.", label: "kind", counter: true,
			read: func(s *kafkasvc.Stats, put emit) { words(s.Alarms, put) }},
		{name: "chathome_rooms", help: "Chat rooms in the directory.",
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.Rooms) })},
		{name: "chathome_directory_rebuilds_total", help: "Times that the view of the directory was dropped and read again.", counter: true,
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.DirectoryRebuilds) })},
		{name: "chathome_store_bytes", help: "Size of the local store.",
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.StoreBytes) })},
	}
}

func logMetrics() []metric {
	return []metric{
		{name: "chathome_loading_shards", help: "Shards being loaded now.",
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.LoadingShards) })},
		{name: "chathome_loading_records_left", help: "Records that the shards being loaded have still to read.",
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.LoadingLeft) })},
		{name: "chathome_loading_ratio", help: "How far loading is, from 0 to 1; 1 while nothing is loaded.",
			read: one(func(s *kafkasvc.Stats) float64 { return s.LoadingRatio })},
		{name: "chathome_loaded_records_total", help: "Records read from the log by loading.", counter: true,
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.LoadedRecords) })},
		{name: "chathome_loaded_bytes_total", help: "Bytes of the records read by loading.", counter: true,
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.LoadedBytes) })},
		{name: "chathome_log_records_total", help: "Records read from the log, by what they were.", label: "what", counter: true,
			read: func(s *kafkasvc.Stats, put emit) { words(s.Records, put) }},
		{name: "chathome_sends_total", help: "Messages that were to be sent, by what the sender was told.", label: "outcome", counter: true,
			read: func(s *kafkasvc.Stats, put emit) { outcomes(&s.Messages, put) }},
		{name: "chathome_room_creations_total", help: "Chat rooms that were to be created, by what the creator was told.", label: "outcome", counter: true,
			read: func(s *kafkasvc.Stats, put emit) { outcomes(&s.NewRooms, put) }},
		{name: "chathome_resends_total", help: "Copies of a batch that were sent because the one before had no good answer.", counter: true,
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.Resends) })},
		{name: "chathome_gaps_read_total", help: "Batches that landed elsewhere than they name, so that the log between was read.", counter: true,
			read: one(func(s *kafkasvc.Stats) float64 { return float64(s.Gaps) })},
		{name: "chathome_kafka_errors_total", help: "Requests to Kafka that failed, by Kafka's name of the code; timeout and connection where no broker answered.", label: "code", counter: true,
			read: func(s *kafkasvc.Stats, put emit) { words(s.KafkaErrors, put) }},
	}
}

func homeDistributions() []distribution {
	return []distribution{
		{name: "chathome_load_seconds", help: "Time from the start of an ownership to its shard being loaded.",
			read: func(s *kafkasvc.Stats) kafkasvc.Histogram { return s.Loads }},
		{name: "chathome_batch_records", help: "Records of a batch that the broker acknowledged.",
			read: func(s *kafkasvc.Stats) kafkasvc.Histogram { return s.Batches }},
		{name: "chathome_append_seconds", help: "Time from sending a batch to its acknowledgement.",
			read: func(s *kafkasvc.Stats) kafkasvc.Histogram { return s.Appends }},
	}
}

// collector asks for a snapshot at each scrape.
type collector struct {
	stats         func() kafkasvc.Stats
	metrics       []metric
	distributions []distribution
	descs         map[string]*prometheus.Desc
}

func newCollector(stats func() kafkasvc.Stats) *collector {
	c := &collector{stats: stats, metrics: homeMetrics(), distributions: homeDistributions(), descs: map[string]*prometheus.Desc{}}
	for _, m := range c.metrics {
		var labels []string
		if m.label != "" {
			labels = []string{m.label}
		}
		c.descs[m.name] = prometheus.NewDesc(m.name, m.help, labels, nil)
	}
	for _, d := range c.distributions {
		c.descs[d.name] = prometheus.NewDesc(d.name, d.help, nil, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	s := c.stats()
	for _, m := range c.metrics {
		kind := prometheus.GaugeValue
		if m.counter {
			kind = prometheus.CounterValue
		}
		m.read(&s, func(label string, value float64) {
			var labels []string
			if m.label != "" {
				labels = []string{label}
			}
			to <- prometheus.MustNewConstMetric(c.descs[m.name], kind, value, labels...)
		})
	}
	for _, d := range c.distributions {
		h := d.read(&s)
		to <- prometheus.MustNewConstHistogram(c.descs[d.name], h.Count, h.Sum, h.Buckets)
	}
}
