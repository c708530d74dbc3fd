package membership

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"

	"github.com/chathome/chathome/domain"
)

// assign gives each of the shards 0 … shards−1 to exactly one of the instances, which are distinct. It is pure:
// equal arguments give equal results on every instance.
//
// Nobody has more than one shard more than anybody else. Under that condition the least possible number of
// shards moves away from where held says they are. held is a hint about who holds what (ok false: nobody
// known); a wrong one costs a move, it can never give a shard to two. Where a shard has to move, it goes where
// the ideal distribution wants it, which depends on the names alone: so an instance that left and came back
// gets the shards again that its local data are of.
func assign(instances []string, shards int, held func(domain.ShardID) (instance string, ok bool)) map[string][]domain.ShardID {
	names := slices.Clone(instances)
	slices.Sort(names)
	result := make(map[string][]domain.ShardID, len(names))
	if len(names) == 0 {
		return result
	}
	index := make(map[string]int, len(names))
	for i, name := range names {
		index[name] = i
	}
	wish := ideal(names, shards)
	wished := make([]int, len(names))
	for _, i := range wish {
		wished[i]++
	}

	// What each one holds now.
	holds := make([][]domain.ShardID, len(names))
	var free []domain.ShardID
	for s := range domain.ShardID(shards) {
		if held != nil {
			if name, ok := held(s); ok {
				if i, here := index[name]; here {
					holds[i] = append(holds[i], s)
					continue
				}
			}
		}
		free = append(free, s)
	}

	// How many each one gets. Of the shards that are left over when divided evenly, those who hold more than
	// the even share keep one each: any other choice would move one more.
	least, extra := shards/len(names), shards%len(names)
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	keepsMore := func(i int) int {
		if len(holds[i]) > least {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(keepsMore(b), keepsMore(a)), cmp.Compare(wished[b], wished[a]))
	})
	room := make([]int, len(names))
	for rank, i := range order {
		room[i] = least
		if rank < extra {
			room[i]++
		}
	}

	// Who holds too much gives up first what the ideal distribution wants elsewhere.
	owner := make([]int, shards)
	for i, mine := range holds {
		slices.SortFunc(mine, func(a, b domain.ShardID) int {
			return cmp.Or(-compareBool(wish[a] == i, wish[b] == i), cmp.Compare(score(names[i], b), score(names[i], a)), cmp.Compare(a, b))
		})
		kept := min(len(mine), room[i])
		for _, s := range mine[:kept] {
			owner[s] = i
		}
		room[i] -= kept
		free = append(free, mine[kept:]...)
	}

	// What is free goes to its ideal place, then to the best of those that have room.
	slices.Sort(free)
	var rest []domain.ShardID
	for _, s := range free {
		if i := wish[s]; room[i] > 0 {
			owner[s] = i
			room[i]--
		} else {
			rest = append(rest, s)
		}
	}
	for _, s := range rest {
		best := -1
		for i, name := range names {
			if room[i] > 0 && (best < 0 || score(name, s) > score(names[best], s)) {
				best = i
			}
		}
		owner[s] = best
		room[best]--
	}
	for s, i := range owner {
		result[names[i]] = append(result[names[i]], domain.ShardID(s))
	}
	return result
}

// ideal is rendezvous hashing with a bound: the pairs of shard and instance are taken in order of their score,
// as long as the distribution stays even. The result is the index of each shard's instance in names.
func ideal(names []string, shards int) []int {
	type pair struct {
		score    uint64
		shard    int
		instance int
	}
	pairs := make([]pair, 0, shards*len(names))
	for i, name := range names {
		for s := range shards {
			pairs = append(pairs, pair{score(name, domain.ShardID(s)), s, i})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.shard, b.shard), cmp.Compare(a.instance, b.instance))
	})
	least, extra := shards/len(names), shards%len(names)
	count := make([]int, len(names))
	owner := slices.Repeat([]int{-1}, shards)
	for _, p := range pairs {
		if owner[p.shard] >= 0 {
			continue
		}
		switch {
		case count[p.instance] < least:
		case count[p.instance] == least && extra > 0:
			extra--
		default:
			continue
		}
		count[p.instance]++
		owner[p.shard] = p.instance
	}
	return owner
}

// score is how much an instance is meant for a shard. It must not change between versions: shards would move
// for nothing.
func score(instance string, shard domain.ShardID) uint64 {
	h := fnv.New64a()
	h.Write([]byte(instance))
	h.Write(binary.BigEndian.AppendUint32(make([]byte, 0, 4), uint32(shard)))
	x := h.Sum64() // FNV alone leaves neighbours alike: murmur3's finalizer
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	return x
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
