package kafkalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"

	"github.com/chathome/chathome/domain"
)

// What a coordinator says to a member whose generation has ended. Each ends the lease at once; errors other than
// these are transient.
var (
	ErrRebalanceInProgress error = kafka.RebalanceInProgress
	ErrIllegalGeneration   error = kafka.IllegalGeneration
	ErrUnknownMember       error = kafka.UnknownMemberId
	ErrFencedMember        error = kafka.FencedInstanceID
)

// GenerationOver says whether err tells that the member's generation has ended.
func GenerationOver(err error) bool {
	return errors.Is(err, ErrRebalanceInProgress) || errors.Is(err, ErrIllegalGeneration) ||
		errors.Is(err, ErrUnknownMember) || errors.Is(err, ErrFencedMember)
}

// Heartbeat tells the group's coordinator that a member lives. kafka-go's Client.Heartbeat reads the answer's
// fields in the wrong order and so never sees an error; this one is encoded here.
// (https://kafka.apache.org/protocol.html#The_Messages_Heartbeat)
func (c *Cluster) Heartbeat(ctx context.Context, group string, generation int32, member string) error {
	const newest = 3 // the last before compact encoding
	code, err := c.askCoordinator(ctx, group, protocol.Heartbeat, newest, func(b []byte, version int16) []byte {
		b = appendString(b, group)
		b = binary.BigEndian.AppendUint32(b, uint32(generation))
		b = appendString(b, member)
		if version >= 3 {
			b = binary.BigEndian.AppendUint16(b, ^uint16(0)) // instance id: null
		}
		return b
	})
	if err == nil && code != 0 {
		err = c.coordinatorSaid(group, code)
	}
	if err != nil {
		return fmt.Errorf("heartbeat to group %s: %w", group, c.failures.note(err))
	}
	return nil
}

// LeaveGroup takes a member out of its group, also while its JoinGroup waits for an answer. A member that is gone
// already is no error. (https://kafka.apache.org/protocol.html#The_Messages_LeaveGroup)
func (c *Cluster) LeaveGroup(ctx context.Context, group, member string) error {
	const newest = 2 // the last that names one member
	code, err := c.askCoordinator(ctx, group, protocol.LeaveGroup, newest, func(b []byte, _ int16) []byte {
		return appendString(appendString(b, group), member)
	})
	if err == nil && code != 0 && code != kafka.UnknownMemberId {
		err = c.coordinatorSaid(group, code)
	}
	if err != nil {
		return fmt.Errorf("leave group %s: %w", group, c.failures.note(err))
	}
	return nil
}

// askCoordinator sends a request of our own encoding whose answer is a throttle time (from version 1 on) and a code.
func (c *Cluster) askCoordinator(ctx context.Context, group string, key protocol.ApiKey, newest int16, body func(b []byte, version int16) []byte) (code kafka.Error, err error) {
	err = c.coordinated(ctx, group, func(k *conn) error {
		version, err := k.version(key, 0, newest)
		if err != nil {
			return err
		}
		if err := k.send(body(k.begin(key, version), version)); err != nil {
			return err
		}
		d, err := k.receive()
		if err != nil {
			return err
		}
		if version >= 1 {
			d.int32() // throttle time
		}
		code = kafka.Error(d.int16())
		return d.err
	})
	return code, err
}

// CommitOffsets writes the offsets of the next records into the group, for those who watch its lag. Nothing that
// chathome reads depends on them.
func (c *Cluster) CommitOffsets(ctx context.Context, group string, generation int32, member, topic string, offsets map[domain.ShardID]domain.Offset) error {
	if len(offsets) == 0 {
		return nil
	}
	t := offsetcommit.RequestTopic{Name: topic}
	for _, shard := range slices.Sorted(maps.Keys(offsets)) {
		t.Partitions = append(t.Partitions, offsetcommit.RequestPartition{
			PartitionIndex:       int32(shard),
			CommittedOffset:      int64(offsets[shard]),
			CommittedLeaderEpoch: -1,
		})
	}
	var m protocol.Message
	err := c.coordinated(ctx, group, func(k *conn) (err error) {
		m, err = k.roundTrip(&offsetcommit.Request{
			GroupID:         group,
			GenerationID:    generation,
			MemberID:        member,
			RetentionTimeMs: -1,
			Topics:          []offsetcommit.RequestTopic{t},
		})
		return err
	})
	if err == nil {
		for _, t := range m.(*offsetcommit.Response).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 && err == nil {
					err = c.coordinatorSaid(group, kafka.Error(p.ErrorCode))
				}
			}
		}
	}
	if err != nil {
		return fmt.Errorf("commit offsets of group %s: %w", group, c.failures.note(err))
	}
	return nil
}

// coordinated runs fn with a connection to the group's coordinator.
func (c *Cluster) coordinated(ctx context.Context, group string, fn func(k *conn) error) error {
	addr, err := c.coordinator(ctx, group)
	if err != nil {
		return err
	}
	if err := c.repeatable(ctx, addr, fn); err != nil {
		c.coordinatorFailed(group)
		return err
	}
	return nil
}

func (c *Cluster) coordinatorSaid(group string, code kafka.Error) error {
	switch code {
	case kafka.NotCoordinatorForGroup, kafka.GroupCoordinatorNotAvailable:
		c.coordinatorFailed(group)
	}
	return code
}
