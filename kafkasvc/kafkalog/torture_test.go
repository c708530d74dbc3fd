package kafkalog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/kafkalog"
	"github.com/chathome/chathome/kafkasvc/kafkatest"
)

// Whatever happens on the way, an answer is true: acknowledged means there and where it was said, not written means
// nowhere, and no append makes two copies.
func TestAppend_NeverLies(t *testing.T) {
	const partitions, appends = 6, 150
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				k := kafkatest.Start(t, kfake.Ports(9092, 9093, 9094), kfake.SeedTopics(partitions, topic))
				c := connect(t, k)
				produce := kmsg.Produce.Int16()
				for _, r := range []kafkatest.Rule{
					{Action: kafkatest.LoseAnswer, Key: produce, Every: 17},
					{Action: kafkatest.CutBefore, Key: produce, Every: 13},
					{Action: kafkatest.LandLate, Key: produce, Every: 19, Delay: 3 * time.Second},
					{Action: kafkatest.Swallow, Key: produce, Every: 23},
					{Action: kafkatest.HoldAnswer, Key: produce, Every: 11, Delay: 2 * time.Second},
					{Action: kafkatest.CutBefore, Key: kmsg.Metadata.Int16(), Every: 3},
				} {
					r.Count = -1
					k.Arm(r)
				}
				random := rand.New(rand.NewPCG(seed, 1))
				stop := make(chan struct{})
				var faults sync.WaitGroup
				faults.Go(func() {
					for {
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(random.IntN(400)) * time.Millisecond):
						}
						switch random.IntN(4) {
						case 0:
							k.CloseConns()
						case 1:
							k.MoveTopicPartition(topic, int32(random.IntN(partitions)), int32(random.IntN(3)))
						case 2:
							k.Silence()
							time.Sleep(time.Duration(random.IntN(700)) * time.Millisecond)
							k.Heal()
						case 3:
							k.Cut()
							time.Sleep(50 * time.Millisecond)
							k.Heal()
						}
					}
				})
				var mu sync.Mutex
				stored, void, unknown := make(map[string]domain.Offset), make(map[string]bool), 0
				var writers sync.WaitGroup
				for p := range int32(partitions) {
					writers.Go(func() {
						for i := range appends {
							v := fmt.Sprintf("%d.%d", p, i)
							base, err := c.Append(within(t, time.Second), topic, p, records(v, v+"b"))
							mu.Lock()
							var e *kafkalog.AppendError
							switch {
							case err == nil:
								stored[v] = base
							case errors.As(err, &e) && e.NotWritten:
								void[v] = true
							default:
								unknown++
							}
							mu.Unlock()
							time.Sleep(20 * time.Millisecond)
						}
					})
				}
				writers.Wait()
				close(stop)
				faults.Wait()
				time.Sleep(time.Minute) // for what lands late

				clean := kafkalog.New(kafkalog.Config{Brokers: k.Addrs(), Dial: k.NewLink().Dial})
				defer clean.Close()
				copies := 0
				for p := range int32(partitions) {
					r := clean.Reader(topic, p)
					all, err := readAll(t, r, 0)
					r.Close()
					if err != nil {
						t.Fatal(err)
					}
					at := make(map[string]domain.Offset)
					for off, rec := range all {
						_, v, _ := strings.Cut(rec, ":")
						if _, twice := at[v]; twice {
							t.Errorf("%s is there twice", v)
						}
						at[v] = domain.Offset(off)
						if void[v] {
							t.Errorf("%s was said to be not written", v)
						}
					}
					copies += len(all) / 2
					for v, off := range stored {
						if strings.HasPrefix(v, fmt.Sprint(p)+".") && (at[v] != off || at[v+"b"] != off+1) {
							t.Errorf("%s was acknowledged at %d and lies at %d", v, off, at[v])
						}
					}
				}
				t.Logf("%d stored, %d not written, %d unknown; %d in the log", len(stored), len(void), unknown, copies)
				if len(stored) == 0 || len(void) == 0 || unknown == 0 {
					t.Error("the faults did not bite")
				}
			})
		})
	}
}

func TestAskAny_ASilentBrokerIsPassedQuickly(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k := kafkatest.Start(t, kfake.Ports(9092, 9093, 9094), kfake.SeedTopics(1, topic))
		leader := k.Addrs()[k.LeaderFor(topic, 0)]
		addrs := k.Addrs()
		slices.SortFunc(addrs, func(a, _ string) int { // the leader last
			if a == leader {
				return 1
			}
			return -1
		})
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != leader {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return k.Dial(ctx, network, addr)
		}
		c := kafkalog.New(kafkalog.Config{Brokers: addrs, Dial: dial})
		defer c.Close()
		began := time.Now()
		if _, err := c.Append(within(t, 5*time.Second), topic, 0, records("a")); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 600*time.Millisecond {
			t.Errorf("two silent brokers cost %v", took)
		}
		c.Close()
	})
}
