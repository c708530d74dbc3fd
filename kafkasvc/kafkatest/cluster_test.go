package kafkatest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const topic = "t"

// produce writes one record with kafka-go's own connection, so that this package is tested without the code that
// is tested with it.
func produce(ctx context.Context, l *kafkatest.Link, addr, value string) error {
	d := kafka.Dialer{DialFunc: l.Dial}
	c, err := d.DialLeader(ctx, "tcp", addr, topic, 0)
	if err != nil {
		return err
	}
	defer c.Close()
	if t, ok := ctx.Deadline(); ok {
		c.SetDeadline(t)
	}
	_, err = c.WriteMessages(kafka.Message{Value: []byte(value)})
	return err
}

func TestRules(t *testing.T) {
	tests := []struct {
		name    string
		rule    kafkatest.Rule
		wantErr bool
		now     int64 // records in the log when the client has its answer
		later   int64 // and a minute later
	}{
		{"none", kafkatest.Rule{Key: 32767}, false, 1, 1},
		{"any key", kafkatest.Rule{Action: kafkatest.CutBefore, Key: kafkatest.AnyKey}, true, 0, 0},
		{"lose the answer", kafkatest.Rule{Action: kafkatest.LoseAnswer}, true, 1, 1},
		{"cut before", kafkatest.Rule{Action: kafkatest.CutBefore}, true, 0, 0},
		{"hold the request", kafkatest.Rule{Action: kafkatest.HoldRequest, Delay: time.Second}, false, 1, 1},
		{"hold the answer", kafkatest.Rule{Action: kafkatest.HoldAnswer, Delay: time.Second}, false, 1, 1},
		{"hold the answer too long", kafkatest.Rule{Action: kafkatest.HoldAnswer, Delay: 9 * time.Second}, true, 1, 1},
		{"land late", kafkatest.Rule{Action: kafkatest.LandLate, Delay: 10 * time.Second}, true, 0, 1},
		{"duplicate", kafkatest.Rule{Action: kafkatest.Duplicate, Delay: 10 * time.Second}, false, 1, 2},
		{"swallow", kafkatest.Rule{Action: kafkatest.Swallow}, true, 0, 0},
		{"another topic", kafkatest.Rule{Action: kafkatest.CutBefore, Topic: "other"}, false, 1, 1},
		{"another partition", kafkatest.Rule{Action: kafkatest.CutBefore, Partitions: []int32{1}}, false, 1, 1},
		{"the second one", kafkatest.Rule{Action: kafkatest.CutBefore, Every: 2}, false, 1, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				c := kafkatest.Start(t, kfake.SeedTopics(2, topic))
				if tt.rule.Key == 0 {
					tt.rule.Key = kmsg.Produce.Int16()
				}
				c.Arm(tt.rule)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err := produce(ctx, c.Link, c.Addrs()[0], "x")
				if (err != nil) != tt.wantErr {
					t.Errorf("produce: %v, want an error: %v", err, tt.wantErr)
				}
				synctest.Wait()
				if n := c.PartitionInfo(topic, 0).HighWatermark; n != tt.now {
					t.Errorf("%d records in the log, want %d", n, tt.now)
				}
				time.Sleep(time.Minute)
				if n := c.PartitionInfo(topic, 0).HighWatermark; n != tt.later {
					t.Errorf("%d records in the log a minute later, want %d", n, tt.later)
				}
				if n := c.Requests(kmsg.Produce.Int16(), topic); n != int(tt.later) {
					t.Errorf("%d produce requests counted, want %d", n, tt.later)
				}
				if n := c.Conns(); n != 0 {
					t.Errorf("%d connections left open", n)
				}
			})
		})
	}
}

func TestLink_SilenceHarmsNobodyElseAndHealsWithEverythingDelivered(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := kafkatest.Start(t, kfake.SeedTopics(1, topic))
		other := c.NewLink()
		c.Silence()
		done := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done <- produce(ctx, c.Link, c.Addrs()[0], "slow")
		}()
		time.Sleep(10 * time.Second)
		if err := produce(t.Context(), other, c.Addrs()[0], "quick"); err != nil {
			t.Errorf("on another link: %v", err)
		}
		select {
		case err := <-done:
			t.Fatalf("the silent link answered: %v", err)
		default:
		}
		c.Heal()
		if err := <-done; err != nil {
			t.Errorf("after healing: %v", err)
		}
	})
}

func TestLink_CutRefusesUntilHealed(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := kafkatest.Start(t, kfake.SeedTopics(1, topic))
		c.Cut()
		if err := produce(t.Context(), c.Link, c.Addrs()[0], "x"); err == nil {
			t.Error("a cut link carried a request")
		}
		c.Heal()
		if err := produce(t.Context(), c.Link, c.Addrs()[0], "x"); err != nil {
			t.Errorf("after healing: %v", err)
		}
	})
}

func TestStartTCP(t *testing.T) {
	c := kafkatest.StartTCP(t, kfake.SeedTopics(1, topic))
	if err := produce(t.Context(), c.Link, c.Addrs()[0], "x"); err != nil {
		t.Error(err)
	}
}

func TestCluster_RestartKeepsWhatWasStored(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := kafkatest.Start(t, kfake.SeedTopics(1, topic), kfake.DataDir(t.TempDir()))
		for round := range int64(3) {
			if err := produce(t.Context(), c.Link, c.Addrs()[0], "x"); err != nil {
				t.Fatal(err)
			}
			c.Stop()
			if err := produce(t.Context(), c.Link, c.Addrs()[0], "x"); err == nil {
				t.Error("a cluster that is stopped took a record")
			}
			time.Sleep(time.Minute)
			c.Restart(t)
			if p := c.PartitionInfo(topic, 0); p == nil || p.HighWatermark != round+1 {
				t.Errorf("after the restart: %+v, want %d records", p, round+1)
			}
		}
	})
}
