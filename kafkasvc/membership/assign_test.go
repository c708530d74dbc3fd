package membership

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/chathome/chathome/domain"
)

type owners map[domain.ShardID]string

func (o owners) held(s domain.ShardID) (string, bool) { name, ok := o[s]; return name, ok }

func ownersOf(a map[string][]domain.ShardID) owners {
	o := make(owners)
	for name, shards := range a {
		for _, s := range shards {
			o[s] = name
		}
	}
	return o
}

// checkAssignment: each shard exactly once, nobody above another by more than one.
func checkAssignment(t *rapid.T, instances []string, shards int, a map[string][]domain.ShardID) {
	count := make(map[domain.ShardID]int)
	least, most := shards, 0
	for _, name := range instances {
		least, most = min(least, len(a[name])), max(most, len(a[name]))
		for _, s := range a[name] {
			count[s]++
		}
		if !slices.IsSorted(a[name]) {
			t.Errorf("%s: not in order: %v", name, a[name])
		}
	}
	for s := range domain.ShardID(shards) {
		if count[s] != 1 {
			t.Errorf("shard %d is assigned %d times", s, count[s])
		}
	}
	if len(count) != shards {
		t.Errorf("%d shards are assigned, there are %d", len(count), shards)
	}
	if most-least > 1 {
		t.Errorf("one has %d shards, another %d", most, least)
	}
	for name := range a {
		if !slices.Contains(instances, name) {
			t.Errorf("%s is not in the group", name)
		}
	}
}

// fewestMoves is the least number of shards that must change hands so that the distribution is even.
func fewestMoves(instances []string, shards int, before owners) int {
	holds := make(map[string]int)
	for s := range domain.ShardID(shards) {
		if name, ok := before[s]; ok {
			holds[name]++
		}
	}
	least, extra := shards/len(instances), shards%len(instances)
	kept := 0
	for _, name := range instances {
		switch n := holds[name]; {
		case n <= least:
			kept += n
		case extra > 0:
			kept += least + 1
			extra--
		default:
			kept += least
		}
	}
	return shards - kept
}

func moves(shards int, before, after owners) int {
	n := 0
	for s := range domain.ShardID(shards) {
		if before[s] != after[s] {
			n++
		}
	}
	return n
}

var genInstances = rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9-]{1,12}`), 1, 12, rapid.ID[string])

func TestAssign_EachShardOnceEvenAndWithTheFewestMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		instances := genInstances.Draw(t, "instances")
		shards := rapid.IntRange(1, 64).Draw(t, "shards")
		// Hints of any kind: present ones, gone ones, nobody, and shards that do not exist.
		known := append([]string{"gone", "also gone"}, instances...)
		before := make(owners)
		for _, s := range rapid.SliceOfN(rapid.IntRange(-3, 80), 0, 100).Draw(t, "known shards") {
			before[domain.ShardID(s)] = rapid.SampledFrom(known).Draw(t, "holder")
		}
		a := assign(instances, shards, before.held)
		checkAssignment(t, instances, shards, a)
		if got, want := moves(shards, before, ownersOf(a)), fewestMoves(instances, shards, before); got != want {
			t.Errorf("%d shards move, %d would do", got, want)
		}
		shuffled := rapid.Permutation(instances).Draw(t, "order")
		if b := assign(shuffled, shards, before.held); !maps.EqualFunc(a, b, slices.Equal[[]domain.ShardID]) {
			t.Errorf("depends on the order of members: %v, %v", a, b)
		}
		if b := assign(instances, shards, ownersOf(a).held); !maps.EqualFunc(a, b, slices.Equal[[]domain.ShardID]) {
			t.Errorf("a rebalance without a change moves shards: %v, %v", a, b)
		}
	})
}

func TestAssign_JoinAndLeaveMoveOnlyWhatTheyMust(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		instances := genInstances.Draw(t, "instances")
		shards := rapid.IntRange(1, 64).Draw(t, "shards")
		before := ownersOf(assign(instances, shards, nil))

		joined := append(slices.Clone(instances), "the one that joins")
		after := ownersOf(assign(joined, shards, before.held))
		for s := range domain.ShardID(shards) {
			if after[s] != before[s] && after[s] != "the one that joins" {
				t.Errorf("join: shard %d goes from %s to %s", s, before[s], after[s])
			}
		}
		if n := moves(shards, before, after); n > (shards+len(joined)-1)/len(joined) {
			t.Errorf("join: %d of %d shards move", n, shards)
		}

		if len(instances) < 2 {
			return
		}
		gone := rapid.SampledFrom(instances).Draw(t, "leaves")
		left := slices.DeleteFunc(slices.Clone(instances), func(name string) bool { return name == gone })
		after = ownersOf(assign(left, shards, before.held))
		for s := range domain.ShardID(shards) {
			if after[s] != before[s] && before[s] != gone {
				t.Errorf("leave of %s: shard %d goes from %s to %s", gone, s, before[s], after[s])
			}
		}
	})
}

// A rolling restart: each instance gets back shards that its local data are of, and no others where the
// division is even.
func TestAssign_RestartedInstanceGetsItsShardsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		instances := genInstances.Draw(t, "instances")
		if len(instances) < 2 {
			return
		}
		shards := rapid.IntRange(1, 64).Draw(t, "shards")
		first := assign(instances, shards, nil)
		now := ownersOf(first)
		gone := rapid.SampledFrom(instances).Draw(t, "restarts")
		left := slices.DeleteFunc(slices.Clone(instances), func(name string) bool { return name == gone })
		now = ownersOf(assign(left, shards, now.held))
		again := assign(instances, shards, now.held)
		for _, s := range again[gone] {
			if !slices.Contains(first[gone], s) {
				t.Errorf("%s came back and got shard %d, it had %v", gone, s, first[gone])
			}
		}
		if shards%len(instances) == 0 && !slices.Equal(first[gone], again[gone]) {
			t.Errorf("%s had %v and got %v back", gone, first[gone], again[gone])
		}
	})
}

func TestAssign_NobodyThere(t *testing.T) {
	if a := assign(nil, 12, nil); len(a) != 0 {
		t.Errorf("got %v", a)
	}
}

// Shards would move for nothing in an upgrade if these changed.
func TestAssign_IsTheSameInEveryVersion(t *testing.T) {
	got := fmt.Sprint(assign([]string{"a", "b", "c"}, 12, nil))
	const want = "map[a:[2 3 5 7] b:[1 4 6 11] c:[0 8 9 10]]"
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := score("chathome-1", 7); got != 0xe7be6ed88a0f3518 {
		t.Errorf("score %#x", got)
	}
}

func BenchmarkAssign(b *testing.B) {
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("instance-%d", i)
	}
	for b.Loop() {
		assign(names, 1000, nil)
	}
}
