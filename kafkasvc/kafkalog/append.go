package kafkalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"github.com/chathome/chathome/domain"
)

// AppendError says what is known of a batch that was not acknowledged.
type AppendError struct {
	// NotWritten: this copy of the batch is not in the log and never will be. Otherwise it may be, or may land at
	// any later time.
	NotWritten bool
	// Permanent: sending the same again cannot succeed (too large, no permission, malformed).
	Permanent bool
	Err       error
}

func (e *AppendError) Error() string {
	switch {
	case e.Permanent:
		return "append: refused for good: " + e.Err.Error()
	case e.NotWritten:
		return "append: not written: " + e.Err.Error()
	}
	return "append: outcome unknown: " + e.Err.Error()
}

func (e *AppendError) Unwrap() error { return e.Err }

// Codes of a broker that refuses a batch before it writes anything. For every other code the batch may be in the
// log: 7 (request timed out) and 20 (too few replicas after the append) are answered after the append, and so may
// storage errors be.
var refusals = map[kafka.Error]struct{ permanent bool }{
	kafka.InvalidMessage:                 {false}, // 2: damaged on the way
	kafka.UnknownTopicOrPartition:        {false}, // 3: also during faults; never means that a topic is gone
	kafka.NotLeaderForPartition:          {false}, // 6
	kafka.MessageSizeTooLarge:            {true},  // 10
	kafka.InvalidTopic:                   {true},  // 17
	kafka.RecordListTooLarge:             {true},  // 18
	kafka.NotEnoughReplicas:              {false}, // 19
	kafka.TopicAuthorizationFailed:       {true},  // 29
	kafka.InvalidTimestamp:               {true},  // 32
	kafka.OutOfOrderSequenceNumber:       {true},  // 45
	kafka.InvalidProducerEpoch:           {true},  // 47
	kafka.Error(87) /* InvalidRecord */ : {true},
}

const maxAppendTimeout = 30 * time.Second

// Append sends exactly one produce request with one record batch and waits until all in-sync replicas have it
// (acks=all). It never retries. base is the offset of the first record; the others follow without a gap. Any error
// is an *AppendError.
//
// ctx should have a deadline: without one, RPCTimeout is it. For one partition, call it again only after it has
// returned: the order of two requests under way is nobody's promise.
func (c *Cluster) Append(ctx context.Context, topic string, partition int32, records []Record) (base domain.Offset, err error) {
	if len(records) == 0 {
		return 0, &AppendError{NotWritten: true, Permanent: true, Err: errors.New("no records")}
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.RPCTimeout)
		defer cancel()
	}
	base, err = c.append(ctx, topic, partition, records)
	return base, c.failures.note(err)
}

func (c *Cluster) append(ctx context.Context, topic string, partition int32, records []Record) (base domain.Offset, err error) {
	addr, seq, err := c.leader(ctx, topic, partition)
	if err != nil {
		return 0, &AppendError{NotWritten: true, Permanent: errors.Is(err, kafka.TopicAuthorizationFailed) || errors.Is(err, kafka.InvalidTopic), Err: lacking(rightWrite, topic, err)}
	}
	k, err := c.connTo(ctx, addr)
	if err != nil {
		c.leaderFailed(topic, seq)
		return 0, &AppendError{NotWritten: true, Err: err}
	}
	version, err := k.version(protocol.Produce, produceMin, produceMax)
	if err != nil {
		k.close()
		return 0, &AppendError{NotWritten: true, Permanent: true, Err: err}
	}
	var res produceResult
	err = c.with(ctx, k, func(k *conn) (err error) {
		if err := k.send(appendProduce(k.begin(protocol.Produce, version), timeLeft(ctx), topic, partition, records)); err != nil {
			return err
		}
		d, err := k.receive()
		if err != nil {
			return err
		}
		res, err = decodeProduce(d, version, topic, partition)
		return err
	})
	if err != nil {
		c.leaderFailed(topic, seq)
		return 0, &AppendError{Err: err}
	}
	if res.code != 0 {
		c.leaderFailed(topic, seq)
		refusal, refused := refusals[res.code]
		err := error(res.code)
		if res.message != "" {
			err = fmt.Errorf("%w: %s", res.code, res.message)
		}
		return 0, &AppendError{NotWritten: refused, Permanent: refusal.permanent, Err: lacking(rightWrite, topic, err)}
	}
	if res.base < 0 {
		return 0, &AppendError{Err: damaged("acknowledged at %d", res.base)}
	}
	return res.base, nil
}

// Versions of the produce request that differ only in the answer's tail. 3 is the first with this batch format,
// 8 the last before compact encoding.
const produceMin, produceMax = 3, 8

func appendProduce(b []byte, timeout time.Duration, topic string, partition int32, records []Record) []byte {
	put := binary.BigEndian
	b = put.AppendUint16(b, ^uint16(0)) // transactional id: null
	b = put.AppendUint16(b, ^uint16(0)) // acks: all
	b = put.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = put.AppendUint32(b, 1) // topics
	b = appendString(b, topic)
	b = put.AppendUint32(b, 1) // partitions
	b = put.AppendUint32(b, uint32(partition))
	at := len(b)
	b = put.AppendUint32(b, 0)
	b = appendBatch(b, records)
	put.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

type produceResult struct {
	code    kafka.Error
	message string
	base    domain.Offset
}

func decodeProduce(d *decoder, version int16, topic string, partition int32) (res produceResult, err error) {
	if n := d.count(1); n != 1 && d.err == nil {
		return res, damaged("%d topics in the answer to a produce request", n)
	}
	gotTopic := d.string()
	if n := d.count(1); n != 1 && d.err == nil {
		return res, damaged("%d partitions in the answer to a produce request", n)
	}
	gotPartition := d.int32()
	res.code = kafka.Error(d.int16())
	res.base = domain.Offset(d.int64())
	d.int64() // log append time
	if version >= 5 {
		d.int64() // log start
	}
	if version >= 8 {
		for range d.count(6) {
			d.int32()
			if m := d.string(); res.message == "" {
				res.message = m
			}
		}
		if m := d.string(); m != "" {
			res.message = m
		}
	}
	d.int32() // throttle time: the broker holds back by itself
	if d.err == nil && (gotTopic != topic || gotPartition != partition) {
		return res, damaged("answer for another partition")
	}
	return res, d.err
}

// timeLeft is how long the broker may wait for the replicas: a little less than the caller waits for the broker.
func timeLeft(ctx context.Context) time.Duration {
	t, ok := ctx.Deadline()
	if !ok {
		return maxAppendTimeout
	}
	left := time.Until(t)
	return max(time.Millisecond, min(left-left/10, maxAppendTimeout))
}
