package metrics_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/server/metrics"
)

// Each part of a home's snapshot moves its own metric, and no other.
func TestMetrics_EachShowsItsOwnPart(t *testing.T) {
	histogram := kafkasvc.Histogram{Count: 3, Sum: 7, Buckets: map[float64]uint64{1: 1, 4: 3}}
	buckets := func(name string) []string {
		return []string{name + "_count", name + "_sum", name + `_bucket{le="1"}`, name + `_bucket{le="4"}`, name + `_bucket{le="+Inf"}`}
	}
	type part struct {
		field string
		set   func(*kafkasvc.Stats)
		moves []string
	}
	parts := []part{
		{"Ready", func(s *kafkasvc.Stats) { s.Ready = true }, []string{"chathome_ready"}},
		{"ShardCount", func(s *kafkasvc.Stats) { s.ShardCount = 5 }, []string{"chathome_home_shards"}},
		{"Rooms", func(s *kafkasvc.Stats) { s.Rooms = 5 }, []string{"chathome_rooms"}},
		{"StoreBytes", func(s *kafkasvc.Stats) { s.StoreBytes = 5 }, []string{"chathome_store_bytes"}},
		{"Generations", func(s *kafkasvc.Stats) { s.Generations = 5 }, []string{"chathome_generations_total"}},
		{"Tenures", func(s *kafkasvc.Stats) { s.Tenures = 5 }, []string{"chathome_tenures_total"}},
		{"Fences", func(s *kafkasvc.Stats) { s.Fences = 5 }, []string{"chathome_fences_total"}},
		{"LeaseLapses", func(s *kafkasvc.Stats) { s.LeaseLapses = 5 }, []string{"chathome_lease_lapses_total"}},
		{"JoinFailed", func(s *kafkasvc.Stats) { s.JoinFailed = 5 }, []string{"chathome_group_join_failures_total"}},
		{"LoadingShards", func(s *kafkasvc.Stats) { s.LoadingShards = 5 }, []string{"chathome_loading_shards"}},
		{"LoadingLeft", func(s *kafkasvc.Stats) { s.LoadingLeft = 5 }, []string{"chathome_loading_records_left"}},
		{"LoadingRatio", func(s *kafkasvc.Stats) { s.LoadingRatio = 0.5 }, []string{"chathome_loading_ratio"}},
		{"LoadedRecords", func(s *kafkasvc.Stats) { s.LoadedRecords = 5 }, []string{"chathome_loaded_records_total"}},
		{"LoadedBytes", func(s *kafkasvc.Stats) { s.LoadedBytes = 5 }, []string{"chathome_loaded_bytes_total"}},
		{"DirectoryRebuilds", func(s *kafkasvc.Stats) { s.DirectoryRebuilds = 5 }, []string{"chathome_directory_rebuilds_total"}},
		{"Resends", func(s *kafkasvc.Stats) { s.Resends = 5 }, []string{"chathome_resends_total"}},
		{"Gaps", func(s *kafkasvc.Stats) { s.Gaps = 5 }, []string{"chathome_gaps_read_total"}},
		{"LeaseMargin", func(s *kafkasvc.Stats) { s.LeaseMargin = time.Second }, nil}, // of no generation
		{"Leased", func(s *kafkasvc.Stats) { s.Leased, s.LeaseMargin = true, time.Second }, []string{"chathome_lease_margin_seconds"}},
		{"Alarms", func(s *kafkasvc.Stats) { s.Alarms = map[string]int64{"shard went back": 1, "FOREIGN_MEMBER": 2} },
			[]string{`chathome_alarms_total{kind="shard_went_back"}`, `chathome_alarms_total{kind="foreign_member"}`}},
		{"Records", func(s *kafkasvc.Stats) { s.Records = map[string]int64{"unknown kind": 1} }, []string{`chathome_log_records_total{what="unknown_kind"}`}},
		{"KafkaErrors", func(s *kafkasvc.Stats) { s.KafkaErrors = map[string]int64{"timeout": 1} }, []string{`chathome_kafka_errors_total{code="timeout"}`}},
		{"Loads", func(s *kafkasvc.Stats) { s.Loads = histogram }, buckets("chathome_load_seconds")},
		{"Batches", func(s *kafkasvc.Stats) { s.Batches = histogram }, buckets("chathome_batch_records")},
		{"Appends", func(s *kafkasvc.Stats) { s.Appends = histogram }, buckets("chathome_append_seconds")},
		{"GateTime", func(s *kafkasvc.Stats) {
			s.GateTime = map[domain.ShardState]time.Duration{domain.ShardLocked: time.Second, domain.ShardNotAssigned: time.Second}
		}, []string{`chathome_gate_seconds_total{state="locked"}`}},
		{"ShardTime", func(s *kafkasvc.Stats) {
			s.ShardTime = map[domain.ShardState]time.Duration{domain.ShardLoading: time.Second}
		}, []string{`chathome_shard_seconds_total{state="loading"}`}},
	}
	for _, state := range []domain.ShardState{domain.ShardLocked, domain.ShardLoading, domain.ShardOpen} {
		name := strings.ToLower(state.String())
		parts = append(parts,
			part{"Gate", func(s *kafkasvc.Stats) { s.Gate = state }, []string{fmt.Sprintf("chathome_gate_state{state=%q}", name)}},
			part{"Shards", func(s *kafkasvc.Stats) { s.Shards = map[domain.ShardState]int{state: 2} }, []string{fmt.Sprintf("chathome_shards{state=%q}", name)}})
	}
	for _, state := range []domain.ShardState{domain.ShardNotAssigned, domain.ShardLocked, domain.ShardLoading} {
		parts = append(parts, part{"Refused", func(s *kafkasvc.Stats) { s.Refused = map[domain.ShardState]int64{state: 2} },
			[]string{fmt.Sprintf("chathome_gate_refused_total{state=%q}", strings.ToLower(state.String()))}})
	}
	for o := range kafkasvc.WriteOutcomes {
		parts = append(parts,
			part{"Messages", func(s *kafkasvc.Stats) { s.Messages[o] = 5 }, []string{fmt.Sprintf("chathome_sends_total{outcome=%q}", o)}},
			part{"NewRooms", func(s *kafkasvc.Stats) { s.NewRooms[o] = 5 }, []string{fmt.Sprintf("chathome_room_creations_total{outcome=%q}", o)}})
	}

	nothing := shown(t, kafkasvc.Stats{})
	covered, moved := map[string]bool{}, map[string]bool{}
	for _, p := range parts {
		var s kafkasvc.Stats
		p.set(&s)
		covered[p.field] = true
		var changed []string
		for name, v := range shown(t, s) {
			if v != nothing[name] {
				changed = append(changed, name)
				moved[strings.FieldsFunc(name, func(r rune) bool { return r == '{' })[0]] = true
			}
		}
		slices.Sort(changed)
		slices.Sort(p.moves)
		if !slices.Equal(changed, p.moves) {
			t.Errorf("%s moves %v, want %v", p.field, changed, p.moves)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[kafkasvc.Stats]()) {
		if !covered[f.Name] {
			t.Errorf("no metric shows %s", f.Name)
		}
	}
	followers := []string{"socket", "stream", "event", "subscription", "reader_lag", "build_info"} // TestMetrics_OfFollowers
	for _, name := range described(t) {
		ofFollowers := slices.ContainsFunc(followers, func(begin string) bool { return strings.HasPrefix(name, "chathome_"+begin) })
		if !moved[name] && !moved[name+"_count"] && !ofFollowers {
			t.Errorf("nothing moves %s", name)
		}
	}
}

// shown are the samples of a scrape of a snapshot.
func shown(t *testing.T, snapshot kafkasvc.Stats) map[string]float64 {
	t.Helper()
	none := func() int { return 0 }
	s := &scraped{t: t, registry: prometheus.NewRegistry()}
	err := metrics.Register(s.registry, metrics.Sources{
		Home: func() kafkasvc.Stats { return snapshot }, Followers: metrics.NewFollowers(),
		Subscriptions: none, Sockets: none, Streams: none,
	})
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]float64{}
	for name, v := range s.samples() {
		if strings.HasPrefix(name, "chathome_") {
			own[name] = v
		}
	}
	return own
}
