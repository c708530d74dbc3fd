package membership

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	kafka "github.com/segmentio/kafka-go"

	"github.com/chathome/chathome/domain"
)

// balancer distributes the pinned number of shards of one topic among the members of the group. The leader runs
// it, alone.
//
// What a member tells of itself is its instance id and when it became a member: nothing else, because changed
// user data make everybody rebalance, and because a member that claims shards may claim what it lost long ago.
// So there are no claims to believe; stickiness comes from held, which every instance learns from the
// directory.
type balancer struct {
	topic    string
	shards   int // pinned: partitions added later get no owner, missing ones keep theirs
	userData []byte
	held     func(domain.ShardID) (instance string, ok bool)
	alarm    func(Alarm)
}

// protocolName is the version of the rules: members that do not share it cannot be in one group.
const protocolName = "chathome-1"

var userDataMagic = [4]byte{'c', 'h', 'm', 1}

// MaxInstanceBytes is the longest instance id.
const MaxInstanceBytes = 255

// identity is what a member says of itself.
type identity struct {
	instance string
	since    int64 // Unix milliseconds; tells a member from its own ghost. It decides nothing else
}

func (id identity) append(dst []byte) []byte {
	dst = append(dst, userDataMagic[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(id.since))
	dst = append(dst, byte(len(id.instance)))
	return append(dst, id.instance...)
}

var errForeign = errors.New("not the user data of a member")

// parseIdentity ignores what follows: a later version may say more.
func parseIdentity(data []byte) (identity, error) {
	const fixed = len(userDataMagic) + 8 + 1
	if len(data) < fixed || [4]byte(data) != userDataMagic {
		return identity{}, errForeign
	}
	n := int(data[fixed-1])
	if n == 0 || len(data) < fixed+n || !utf8.Valid(data[fixed:fixed+n]) {
		return identity{}, errForeign
	}
	return identity{
		instance: string(data[fixed : fixed+n]),
		since:    int64(binary.BigEndian.Uint64(data[len(userDataMagic):])),
	}, nil
}

// ProtocolName implements kafka.GroupBalancer.
func (b *balancer) ProtocolName() string { return protocolName }

// UserData implements kafka.GroupBalancer.
func (b *balancer) UserData() ([]byte, error) { return b.userData, nil }

// AssignGroups implements kafka.GroupBalancer. The partitions that exist do not matter: the shard count is
// pinned. A member that is none of ours gets nothing. Of two members with one instance id (a ghost that the
// group still waits for, and its successor) the one that came last gets all.
func (b *balancer) AssignGroups(members []kafka.GroupMember, _ []kafka.Partition) kafka.GroupMemberAssignments {
	type candidate struct {
		identity
		member string
	}
	result := make(kafka.GroupMemberAssignments, len(members))
	chosen := make(map[string]candidate, len(members)) // by instance
	for _, m := range members {
		result[m.ID] = map[string][]int{b.topic: {}} // everybody gets an answer that can be decoded
		id, err := parseIdentity(m.UserData)
		if err != nil || !slices.Contains(m.Topics, b.topic) {
			b.alarm(Alarm{Kind: AlarmForeignMember, Member: m.ID})
			continue
		}
		c := candidate{id, m.ID}
		other, twice := chosen[id.instance]
		if twice {
			b.alarm(Alarm{Kind: AlarmDuplicateInstance, Member: m.ID, Instance: id.instance})
			if c.since < other.since || c.since == other.since && strings.Compare(c.member, other.member) > 0 {
				c = other
			}
		}
		chosen[id.instance] = c
	}
	instances := make([]string, 0, len(chosen))
	for name := range chosen {
		instances = append(instances, name)
	}
	for name, shards := range assign(instances, b.shards, b.held) {
		mine := make([]int, len(shards))
		for i, s := range shards {
			mine[i] = int(s)
		}
		result[chosen[name].member][b.topic] = mine
	}
	return result
}

// shardsOf is what a generation gives to this member. A leader that is none of ours may have sent anything.
func (b *balancer) shardsOf(gen *kafka.Generation) []domain.ShardID {
	var shards []domain.ShardID
	bad := false
	for topic, partitions := range gen.Assignments {
		for _, p := range partitions {
			if topic != b.topic || p.ID < 0 || p.ID >= b.shards {
				bad = true
				continue
			}
			shards = append(shards, domain.ShardID(p.ID))
		}
	}
	slices.Sort(shards)
	n := len(shards)
	shards = slices.Compact(shards)
	if bad || len(shards) != n {
		b.alarm(Alarm{Kind: AlarmBadAssignment, Member: gen.MemberID})
	}
	return shards
}

// AlarmKind says what is wrong with the group. None of it is fatal.
type AlarmKind uint8

const (
	// AlarmForeignMember: a member of the group is no chathome instance, or one of another topic. It gets
	// nothing. Give the other program another group id.
	AlarmForeignMember AlarmKind = iota
	// AlarmDuplicateInstance: two members have one instance id. After a kill and restart this passes within
	// the rebalance timeout; if it stays, two processes were given one --instance-id.
	AlarmDuplicateInstance
	// AlarmBadAssignment: the group's leader assigned what does not exist, or something twice. It is no
	// chathome instance, or one with another shard count.
	AlarmBadAssignment
)

func (k AlarmKind) String() string {
	return [...]string{"FOREIGN_MEMBER", "DUPLICATE_INSTANCE", "BAD_ASSIGNMENT"}[k]
}

// Alarm is something that a person should look at. Member and Instance come from the network.
type Alarm struct {
	Kind     AlarmKind
	Member   string
	Instance string // where known
}
