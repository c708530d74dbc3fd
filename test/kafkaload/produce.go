package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/record"
)

// raw is kafka-go alone: senders that wait for their record, and one produce request at a time for each partition.
type raw struct {
	client *kafka.Client
	topic  string
	lines  []chan *rawSender // of each partition
}

// rawSender sends one record after the other to one partition.
type rawSender struct {
	line   chan *rawSender
	room   uuid.UUID
	name   string
	sent   int
	key    []byte
	value  []byte
	stored chan error
}

// startRaw runs a producer for each partition that has senders, until ctx ends. batch is how many records a request
// holds on average; what it holds at least are whole records, at most one of each sender.
func startRaw(ctx context.Context, broker, topic string, partitions, senders int, batch float64) (all []*rawSender, wait func()) {
	transport := &kafka.Transport{MetadataTTL: 5 * time.Second, Dial: new(net.Dialer).DialContext}
	r := &raw{client: &kafka.Client{Addr: kafka.TCP(broker), Transport: transport}, topic: topic}
	for range partitions {
		r.lines = append(r.lines, make(chan *rawSender, senders))
	}
	for i := range senders {
		all = append(all, &rawSender{line: r.lines[i%partitions], room: uuid.New(), stored: make(chan error, 1)})
	}
	ended := make(chan struct{})
	running := min(partitions, senders)
	for p := range running {
		here := (senders - p + partitions - 1) / partitions
		go func() {
			r.produce(ctx, p, here, batch)
			ended <- struct{}{}
		}()
	}
	return all, func() {
		for range running {
			<-ended
		}
		transport.CloseIdleConnections()
	}
}

// produce serves a partition.
func (r *raw) produce(ctx context.Context, partition, senders int, batch float64) {
	var waiting []*rawSender
	var records []kafka.Record
	for owed := 0.0; ; {
		owed += batch
		n := min(max(int(owed), 1), senders)
		owed = max(owed-float64(n), 0)
		waiting, records = waiting[:0], records[:0]
		for len(waiting) < n {
			select {
			case s := <-r.lines[partition]:
				waiting = append(waiting, s)
				records = append(records, kafka.Record{Key: kafka.NewBytes(s.key), Value: kafka.NewBytes(s.value)})
			case <-ctx.Done():
				for _, s := range waiting {
					s.stored <- context.Cause(ctx)
				}
				return
			}
		}
		err := r.store(partition, records)
		for _, s := range waiting {
			s.stored <- err
		}
	}
}

func (r *raw) store(partition int, records []kafka.Record) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerLimit)
	defer cancel()
	res, err := r.client.Produce(ctx, &kafka.ProduceRequest{
		Topic: r.topic, Partition: partition, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...),
	})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return fmt.Errorf("raw produce: %w", err)
	}
	return nil
}

// errOver: the phase has ended.
var errOver = errors.New("the phase is over")

// send stores a record that is as large as a message's.
func (s *rawSender) send(ctx context.Context) (at time.Time, err error) {
	s.sent++
	m := domain.Message{Room: s.room, Serial: domain.Serial(s.sent), User: s.name, ClientID: fmt.Sprintf("%s-%d", s.name, s.sent), Text: text, SentAt: domain.MillisOf(time.Now())}
	s.key = record.Key(s.room)
	s.value = record.AppendMessage(s.value[:0], domain.Offset(s.sent), &m)
	select {
	case s.line <- s:
	case <-ctx.Done():
		return at, errOver
	}
	select {
	case err := <-s.stored:
		if ctx.Err() != nil {
			err = errOver
		}
		return time.Now(), err
	case <-ctx.Done():
		return at, errOver
	}
}
