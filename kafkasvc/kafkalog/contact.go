package kafkalog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// askAny puts a question that every broker can answer, and takes the first answer. Where one keeps silent for a while
// or fails, the next one is asked beside it, so that a broker that hangs does not use up the caller's time.
func (c *Cluster) askAny(ctx context.Context, question func() protocol.Message) (protocol.Message, error) {
	type answer struct {
		addr string
		m    protocol.Message
		err  error
	}
	contacts := c.routes.contacts()
	if len(contacts) == 0 {
		return nil, errNoBrokers
	}
	ctx, cancel := context.WithCancel(ctx)
	answers := make(chan answer, len(contacts))
	var asking sync.WaitGroup
	defer asking.Wait() // after cancel, which closes their connections
	defer cancel()
	next := 0
	ask := func() {
		addr := contacts[next]
		next++
		asking.Go(func() {
			m, err := c.ask(ctx, addr, question())
			answers <- answer{addr, m, err}
		})
	}
	ask()
	patience := c.cfg.RPCTimeout / 4
	hurry := time.NewTimer(patience)
	defer hurry.Stop()
	var errs []error
	for {
		select {
		case a := <-answers:
			if a.err == nil {
				c.answered(a.addr)
				for _, addr := range contacts[:next] {
					if addr != a.addr {
						c.routes.demote(addr) // slower, or silent
					}
				}
				return a.m, nil
			}
			if ctx.Err() == nil {
				c.failed(a.addr, a.err)
			}
			errs = append(errs, a.err)
			switch {
			case len(errs) < next: // others are still asked
			case next == len(contacts), ctx.Err() != nil:
				return nil, errors.Join(errs...)
			default:
				ask()
				hurry.Reset(patience)
			}
		case <-hurry.C:
			if next < len(contacts) {
				ask()
				hurry.Reset(patience)
			}
		}
	}
}

// errNoBrokers stands where not even one broker was there to ask.
var errNoBrokers = errors.New("kafka: no brokers are given")

// contacts are the addresses to ask: first what answered before.
func (r *routes) contacts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seeds)
}

func (r *routes) demote(addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.seeds, addr); i >= 0 {
		r.seeds = append(slices.Delete(r.seeds, i, i+1), addr)
	}
}

// failed puts a broker at the end of those to ask. No caller hears of it as long as another one answers, so the log
// does: once for each kind of failure until the broker answers again.
func (c *Cluster) failed(addr string, err error) {
	c.routes.demote(addr)
	c.routes.mu.Lock()
	kind := kindOf(err)
	known := slices.Contains(c.routes.failing[addr], kind)
	if !known {
		c.routes.failing[addr] = append(c.routes.failing[addr], kind)
	}
	c.routes.mu.Unlock()
	if !known {
		c.cfg.Log.Warn("a broker does not answer; asking the others", "broker", addr, "err", err)
	}
}

// kindOf tells failures apart without what differs from one to the next, such as ports.
func kindOf(err error) string {
	var e *BrokerError
	if !errors.As(err, &e) {
		return ""
	}
	return string(e.Stage) + e.hint
}

func (c *Cluster) answered(addr string) {
	r := &c.routes
	r.mu.Lock()
	_, known := r.failing[addr]
	delete(r.failing, addr)
	r.mu.Unlock()
	if known {
		c.cfg.Log.Info("the broker answers again", "broker", addr)
	}
}
