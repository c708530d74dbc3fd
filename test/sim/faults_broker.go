package sim

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What happens to the brokers, seen by all instances.
func brokerFaults() []*fault {
	return []*fault{
		{name: "slow brokers", length: 8 * time.Second, strike: slowBrokers},
		{name: "silent broker", length: 6 * time.Second, strike: silentBroker},
		{name: "leader moves", length: 6 * time.Second, strike: leaderMoves},
		{name: "coordinator moves", length: 4 * time.Second, strike: coordinatorMoves},
		{name: "broker restart", length: 4 * time.Second, strike: brokerRestart},
	}
}

func slowBrokers(w *world, r *rand.Rand, length time.Duration) int {
	before, d := w.delayed.Load(), int64(time.Duration(5+r.IntN(250))*time.Millisecond)
	w.latency.Add(d)
	time.Sleep(length)
	w.latency.Add(-d)
	return int(w.delayed.Load() - before)
}

// silentBroker takes everything and answers nothing, to anybody.
func silentBroker(w *world, r *rand.Rand, length time.Duration) (bites int) {
	addr := w.addrs[r.IntN(len(w.addrs))]
	var ls []*life
	for _, n := range w.running() {
		if l := n.life(); l != nil {
			bites += l.links[addr].Conns()
			l.links[addr].Silence()
			ls = append(ls, l)
		}
	}
	time.Sleep(length)
	for _, l := range ls {
		l.heal()
	}
	return bites
}

func leaderMoves(w *world, r *rand.Rand, length time.Duration) (bites int) {
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Duration(50+r.IntN(3000)) * time.Millisecond) {
		w.brokers.Lock()
		topic, partition := messages, int32(r.IntN(w.cfg.Shards))
		if r.IntN(6) == 0 {
			topic, partition = directory, 0
		}
		to := int32(r.IntN(len(w.addrs)))
		if w.cluster.LeaderFor(topic, partition) != to && w.cluster.MoveTopicPartition(topic, partition, to) == nil {
			bites++
		}
		w.brokers.Unlock()
	}
	return bites
}

func coordinatorMoves(w *world, r *rand.Rand, length time.Duration) (bites int) {
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Duration(500+r.IntN(3000)) * time.Millisecond) {
		w.brokers.Lock()
		before := w.cluster.CoordinatorFor(group)
		w.cluster.RehashCoordinators()
		if w.cluster.CoordinatorFor(group) != before {
			bites++
		}
		w.brokers.Unlock()
	}
	return bites
}

func brokerRestart(w *world, _ *rand.Rand, length time.Duration) int {
	w.brokers.Lock()
	defer w.brokers.Unlock()
	w.cluster.Stop()
	time.Sleep(length)
	w.cluster.Restart(w.t)
	return 1
}

// fault asks the cluster for wrong answers. After a restart it has forgotten.
func (w *world) fault(f kfake.Fault) *kfake.FaultHandle {
	w.brokers.Lock()
	defer w.brokers.Unlock()
	return w.cluster.Fault(f)
}

// errorCodes: brokers answer requests of one kind with errors of every kind.
func errorCodes() (fs []*fault) {
	topic := []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.LeaderNotAvailable, kerr.KafkaStorageError,
		kerr.UnknownServerError, kerr.TopicAuthorizationFailed, kerr.ReplicaNotAvailable, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
	}
	member := []*kerr.Error{
		kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.UnknownMemberID,
		kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.UnknownServerError, kerr.GroupAuthorizationFailed,
	}
	for _, k := range []struct {
		name     string
		key      kmsg.Key
		topLevel bool
		errs     []*kerr.Error
	}{
		{"produce", kmsg.Produce, false, append([]*kerr.Error{
			kerr.RequestTimedOut, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend, kerr.MessageTooLarge,
			kerr.CorruptMessage, kerr.InvalidTimestamp, kerr.InvalidProducerEpoch,
		}, topic...)},
		{"fetch", kmsg.Fetch, false, append([]*kerr.Error{kerr.OffsetOutOfRange, kerr.CorruptMessage}, topic...)},
		{"list offsets", kmsg.ListOffsets, false, append([]*kerr.Error{kerr.OffsetNotAvailable}, topic...)},
		{"metadata", kmsg.Metadata, false, topic},
		{"heartbeat", kmsg.Heartbeat, true, member},
		{"join group", kmsg.JoinGroup, true, append([]*kerr.Error{kerr.MemberIDRequired, kerr.InvalidSessionTimeout, kerr.InconsistentGroupProtocol, kerr.GroupMaxSizeReached}, member...)},
		{"sync group", kmsg.SyncGroup, true, member},
		{"leave group", kmsg.LeaveGroup, true, member},
		{"find coordinator", kmsg.FindCoordinator, false, []*kerr.Error{kerr.CoordinatorNotAvailable, kerr.UnknownServerError, kerr.GroupAuthorizationFailed}},
		{"offset commit", kmsg.OffsetCommit, false, append([]*kerr.Error{kerr.OffsetMetadataTooLarge}, member...)},
	} {
		fs = append(fs, &fault{name: "errors of " + k.name, length: 3 * time.Second, strike: func(w *world, r *rand.Rand, length time.Duration) (bites int) {
			for end := time.Now().Add(length); time.Now().Before(end); {
				f := w.fault(kfake.Fault{Keys: []kmsg.Key{k.key}, TopLevel: k.topLevel, Err: k.errs[r.IntN(len(k.errs))], Count: 1 + r.IntN(4)})
				switch k.key { // these are rare while nothing else happens
				case kmsg.JoinGroup, kmsg.SyncGroup, kmsg.ListOffsets:
					w.fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.RebalanceInProgress, Count: 1})
				}
				if k.key == kmsg.LeaveGroup || k.key == kmsg.FindCoordinator {
					gracefulLeave(w, r, 100*time.Millisecond)
				}
				time.Sleep(time.Duration(100+r.IntN(900)) * time.Millisecond)
				f.Remove()
				bites += f.Hits()
			}
			return bites
		}})
	}
	return fs
}
