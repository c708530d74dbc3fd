package membership

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	kafka "github.com/segmentio/kafka-go"
	"pgregory.net/rapid"

	"github.com/chathome/chathome/domain"
)

const testTopic = "chathome.messages"

func testBalancer(shards int, alarms *[]Alarm) *balancer {
	return &balancer{
		topic:    testTopic,
		shards:   shards,
		userData: identity{"me", 1}.append(nil),
		alarm:    func(a Alarm) { *alarms = append(*alarms, a) },
	}
}

func groupMember(id, instance string, since int64, topics ...string) kafka.GroupMember {
	if len(topics) == 0 {
		topics = []string{testTopic}
	}
	return kafka.GroupMember{ID: id, Topics: topics, UserData: identity{instance, since}.append(nil)}
}

func partitions(n int) []kafka.Partition {
	ps := make([]kafka.Partition, n)
	for i := range ps {
		ps[i] = kafka.Partition{Topic: testTopic, ID: i}
	}
	return ps
}

// Stale, doubled or foreign claims cannot exist (KAFKA-12984, KAFKA-14639): nobody claims anything. What is
// left is who a member says it is.
func TestBalancer_AssignsEachShardOnceWhateverMembersSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.IntRange(1, 40).Draw(t, "shards")
		var members []kafka.GroupMember
		ours := make(map[string]bool) // instances
		for i := range rapid.IntRange(0, 10).Draw(t, "members") {
			m := kafka.GroupMember{ID: "member-" + string(rune('a'+i)), Topics: []string{testTopic}}
			switch rapid.SampledFrom([]string{"ours", "ours", "twice", "garbage", "another topic", "cut"}).Draw(t, "kind") {
			case "ours":
				m = groupMember(m.ID, m.ID, int64(i))
				ours[m.ID] = true
			case "twice":
				m = groupMember(m.ID, "twin", rapid.Int64Range(0, 2).Draw(t, "since"))
				ours["twin"] = true
			case "garbage":
				m.UserData = rapid.SliceOf(rapid.Byte()).Draw(t, "user data")
				if id, err := parseIdentity(m.UserData); err == nil {
					ours[id.instance] = true
				}
			case "another topic":
				m = groupMember(m.ID, m.ID, 1, "another")
			case "cut":
				m = groupMember(m.ID, "cut", 1)
				m.UserData = m.UserData[:rapid.IntRange(0, len(m.UserData)-1).Draw(t, "length")]
			}
			members = append(members, m)
		}
		members = rapid.Permutation(members).Draw(t, "order")
		var alarms []Alarm
		b := testBalancer(shards, &alarms)
		got := b.AssignGroups(members, partitions(rapid.IntRange(0, 60).Draw(t, "partitions")))

		count := make(map[int]int)
		for _, m := range members {
			topics, ok := got[m.ID]
			if !ok || len(topics) != 1 || topics[testTopic] == nil {
				t.Errorf("member %s gets no answer that it can decode: %v", m.ID, topics)
			}
			for _, p := range topics[testTopic] {
				count[p]++
			}
		}
		if len(got) != len(members) {
			t.Errorf("%d members, %d answers", len(members), len(got))
		}
		want := shards
		if len(ours) == 0 {
			want = 0
		}
		for p, n := range count {
			if n != 1 || p < 0 || p >= shards {
				t.Errorf("shard %d is assigned %d times", p, n)
			}
		}
		if len(count) != want {
			t.Errorf("%d shards are assigned, want %d", len(count), want)
		}
		if len(alarms) != len(members)-len(ours) {
			t.Errorf("%d alarms for %d members of %d instances", len(alarms), len(members), len(ours))
		}
	})
}

func TestBalancer_IgnoresForeignMembersAndSaysSo(t *testing.T) {
	for name, foreign := range map[string]kafka.GroupMember{
		"no user data":        {ID: "f", Topics: []string{testTopic}},
		"another protocol's":  {ID: "f", Topics: []string{testTopic}, UserData: []byte("sticky\x00\x01")},
		"a version to come":   {ID: "f", Topics: []string{testTopic}, UserData: []byte("chm\x02\x00\x00\x00\x00\x00\x00\x00\x00\x01a")},
		"an empty instance":   {ID: "f", Topics: []string{testTopic}, UserData: identity{"", 1}.append(nil)},
		"not UTF-8":           {ID: "f", Topics: []string{testTopic}, UserData: identity{"\xff", 1}.append(nil)},
		"another topic":       groupMember("f", "other", 1, "other.messages"),
		"no topic":            {ID: "f", UserData: identity{"other", 1}.append(nil)},
		"a length that is it": {ID: "f", Topics: []string{testTopic}, UserData: append(identity{"", 1}.append(nil)[:12], 200, 'a')},
	} {
		t.Run(name, func(t *testing.T) {
			var alarms []Alarm
			got := testBalancer(12, &alarms).AssignGroups([]kafka.GroupMember{foreign, groupMember("a", "me", 1)}, partitions(12))
			if n := len(got["a"][testTopic]); n != 12 {
				t.Errorf("our member has %d shards", n)
			}
			if n := len(got["f"][testTopic]); n != 0 {
				t.Errorf("the foreign member has %d shards", n)
			}
			if want := []Alarm{{Kind: AlarmForeignMember, Member: "f"}}; !slices.Equal(alarms, want) {
				t.Errorf("alarms %v, want %v", alarms, want)
			}
		})
	}
}

// A ghost of an instance (a process that was killed while it joined) must not hold what its successor could serve.
func TestBalancer_LatestOfTwoMembersOfOneInstanceGetsAll(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {1, 0, 2}, {2, 1, 0}} {
		all := []kafka.GroupMember{groupMember("ghost", "me", 10), groupMember("alive", "me", 11), groupMember("b", "other", 1)}
		var members []kafka.GroupMember
		for _, i := range order {
			members = append(members, all[i])
		}
		var alarms []Alarm
		got := testBalancer(12, &alarms).AssignGroups(members, nil)
		if g, a, b := len(got["ghost"][testTopic]), len(got["alive"][testTopic]), len(got["b"][testTopic]); g != 0 || a != 6 || b != 6 {
			t.Errorf("ghost %d, alive %d, other %d shards", g, a, b)
		}
		if len(alarms) != 1 || alarms[0].Kind != AlarmDuplicateInstance || alarms[0].Instance != "me" {
			t.Errorf("alarms %v", alarms)
		}
	}
}

// The shard count is pinned: a topic that grew or is not there must not move rooms to other shards.
func TestBalancer_DistributesThePinnedCountWhateverPartitionsExist(t *testing.T) {
	for _, exist := range []int{0, 3, 12, 24} {
		var alarms []Alarm
		got := testBalancer(12, &alarms).AssignGroups([]kafka.GroupMember{groupMember("a", "me", 1)}, partitions(exist))
		if mine := got["a"][testTopic]; len(mine) != 12 || mine[11] != 11 {
			t.Errorf("%d partitions exist: %v", exist, mine)
		}
	}
}

func TestBalancer_KeepsShardsWhereTheDirectorySeesThem(t *testing.T) {
	var alarms []Alarm
	b := testBalancer(4, &alarms)
	b.held = owners{0: "x", 1: "y", 2: "x", 3: "gone"}.held
	got := b.AssignGroups([]kafka.GroupMember{groupMember("1", "x", 1), groupMember("2", "y", 1)}, nil)
	if x, y := got["1"][testTopic], got["2"][testTopic]; !slices.Equal(x, []int{0, 2}) || !slices.Equal(y, []int{1, 3}) {
		t.Errorf("x has %v, y has %v", x, y)
	}
}

func TestBalancer_UserDataAreSmallAndStable(t *testing.T) {
	var alarms []Alarm
	b := testBalancer(4, &alarms)
	first, _ := b.UserData()
	b.AssignGroups([]kafka.GroupMember{groupMember("1", "x", 1)}, nil)
	second, _ := b.UserData()
	if !bytes.Equal(first, second) || len(first) > 20 {
		t.Errorf("user data %q, then %q", first, second)
	}
}

func TestShardsOf_TakesOnlyWhatExists(t *testing.T) {
	for _, tt := range []struct {
		name        string
		assignments map[string][]int
		want        []domain.ShardID
		alarm       bool
	}{
		{"in order", map[string][]int{testTopic: {3, 1, 2}}, []domain.ShardID{1, 2, 3}, false},
		{"nothing", map[string][]int{testTopic: {}}, nil, false},
		{"no topic", nil, nil, false},
		{"twice", map[string][]int{testTopic: {1, 1}}, []domain.ShardID{1}, true},
		{"beyond the pinned count", map[string][]int{testTopic: {1, 4}}, []domain.ShardID{1}, true},
		{"negative", map[string][]int{testTopic: {-1}}, nil, true},
		{"another topic", map[string][]int{"other": {1}}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gen := &kafka.Generation{MemberID: "m", Assignments: make(map[string][]kafka.PartitionAssignment)}
			for topic, ps := range tt.assignments {
				for _, p := range ps {
					gen.Assignments[topic] = append(gen.Assignments[topic], kafka.PartitionAssignment{ID: p})
				}
			}
			var alarms []Alarm
			if got := testBalancer(4, &alarms).shardsOf(gen); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if (len(alarms) == 1) != tt.alarm {
				t.Errorf("alarms %v", alarms)
			}
		})
	}
}

func FuzzParseIdentity(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(identity{"a", 1}.append(nil))
	f.Add(identity{strings.Repeat("x", MaxInstanceBytes), -1}.append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := parseIdentity(data)
		if err != nil {
			return
		}
		again := id.append(nil)
		if !bytes.HasPrefix(data, again) {
			t.Errorf("%+v was read from %q and is written as %q", id, data, again)
		}
	})
}
