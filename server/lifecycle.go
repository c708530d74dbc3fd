package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc"
	"github.com/chathome/chathome/server/httpserver"
	"github.com/chathome/chathome/server/metrics"
)

// home is what the program asks of a chat home beside what the domain says. kafkasvc's is one.
type home interface {
	domain.ChatHome
	// Run takes part in the group until ctx ends. Then it locks the gate, drains what is being written,
	// flushes, leaves the group and returns. An error is a fault that time does not heal.
	Run(ctx context.Context) error
	// Close closes the local store; after Run has returned.
	Close() error
	// NotReady says why the gate is not open for what is assigned here; nothing when it is.
	NotReady() []httpserver.Reason
	// Stats is for metrics.
	Stats() kafkasvc.Stats
}

// instance is one running server. serve.go puts it together.
type instance struct {
	log      *slog.Logger
	home     home
	http     *httpserver.Server
	listener net.Listener
	metrics  *metrics.Server // nil without
	broker   func() error    // closes the embedded broker; nil without one
	budget   time.Duration   // for a stop
	stopping atomic.Bool     // makes it not ready
}

// Parts of the budget of a stop that are kept for its end. The store and the broker get what is left besides: after loading
// much on a slow disk a store takes longer.
const (
	socketTime = 3 * time.Second // for last answers and events, and for peers to answer the close
	storeTime  = time.Second     // for the local store to write what it has
	scrapeTime = time.Second     // for a scrape under way
	brokerTime = time.Second     // the same for the embedded broker
)

var errEndedByItself = errors.New("the chat home ended by itself")

// run serves until the first signal or a fault, then stops in order. A nil error is a clean stop.
func (i *instance) run(p process) error {
	inGroup, leave := context.WithCancel(context.Background())
	defer leave()
	tasks, faulty := errgroup.WithContext(context.Background())
	left := make(chan struct{})
	tasks.Go(func() error {
		defer close(left)
		err := i.home.Run(inGroup)
		if err == nil && inGroup.Err() == nil {
			err = errEndedByItself
		}
		return err
	})
	tasks.Go(func() error { return i.http.Serve(i.listener) })
	if i.metrics != nil {
		tasks.Go(i.metrics.Serve)
	}
	go i.tellReadiness(faulty)

	select {
	case s := <-p.signals:
		i.log.Info("stopping", "signal", s.String())
	case <-faulty.Done():
		i.log.Error("stopping after a fault", "err", context.Cause(faulty))
	}
	defer p.exitOnSecondSignal(i.log)()
	if err := i.stop(leave, left); err != nil {
		return errors.Join(context.Cause(faulty), err) // without Wait: something may never end
	}
	return tasks.Wait()
}

// stop is the one order in which an instance ends: nobody new is sent here, then nothing new is written, what
// is being written ends, the group hears of it and gives the shards to others, clients are told to go there,
// and only then does the ground go away.
func (i *instance) stop(leave context.CancelFunc, left <-chan struct{}) error {
	began := time.Now()
	steps := []step{
		{name: "say not ready", limit: grace, do: func(context.Context) error {
			i.stopping.Store(true)
			return nil
		}},
		{name: "lock the gate, drain, flush and leave the group", do: func(ctx context.Context) error {
			leave()
			select {
			case <-left:
				return nil
			case <-ctx.Done():
				return errLeft
			}
		}},
		{name: "close streams and sockets", sure: socketTime, limit: socketTime, do: func(ctx context.Context) error {
			if err := i.http.Shutdown(ctx); err != nil {
				i.log.Info("closed connections that did not end by themselves", "err", err)
			}
			return nil
		}},
		{name: "close the local store", sure: storeTime, do: func(context.Context) error {
			select {
			case <-left:
				return i.home.Close()
			default:
				return errLeft // still in use; it may lose its end, and is rebuilt from the log then
			}
		}},
	}
	if i.metrics != nil {
		steps = append(steps, step{name: "end the last scrape", sure: scrapeTime, limit: scrapeTime, do: i.metrics.Shutdown})
	}
	if i.broker != nil {
		steps = append(steps, step{name: "close the embedded broker", sure: brokerTime, do: func(context.Context) error {
			return i.broker()
		}})
	}
	err := stopInOrder(i.log, i.budget, steps)
	i.log.Info("stopped", "took", time.Since(began).Round(time.Millisecond))
	return err
}

// notReady is asked by /readyz.
func (i *instance) notReady() []httpserver.Reason {
	if i.stopping.Load() {
		return []httpserver.Reason{{State: "STOPPING", Reason: "this instance is stopping"}}
	}
	return i.home.NotReady()
}

// tellReadiness logs when the instance becomes ready and when it no longer is, with the first reason.
func (i *instance) tellReadiness(until context.Context) {
	tick := time.NewTicker(readinessInterval)
	defer tick.Stop()
	ready := false
	for {
		reasons := i.notReady()
		switch {
		case i.stopping.Load():
			return
		case len(reasons) == 0 && !ready:
			i.log.Info("ready")
		case len(reasons) > 0 && ready:
			i.log.Warn("not ready", "reasons", len(reasons), "state", reasons[0].State, "first", reasons[0].Reason)
		}
		ready = len(reasons) == 0
		select {
		case <-tick.C:
		case <-until.Done():
			return
		}
	}
}

const readinessInterval = 250 * time.Millisecond
