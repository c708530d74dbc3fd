package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/server/fanout"
	"github.com/chathome/chathome/server/ws"
)

// Followers counts what happens on sockets and event streams. It implements the observers of ws and fanout; only
// labels that it knows from the start occur.
type Followers struct {
	opened, delivered, delayed, executed, cut prometheus.Counter
	closed, refused, operations               labelled
	lag                                       prometheus.Histogram
}

var (
	_ ws.Observer     = (*Followers)(nil)
	_ fanout.Observer = (*Followers)(nil)
)

// labelled is a counter for each of a few values; others are counted as "other".
type labelled struct {
	vec      *prometheus.CounterVec
	counters map[string]prometheus.Counter
}

const other = "other"

func newLabelled(name, help, label string, values ...string) labelled {
	l := labelled{
		vec:      prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label}),
		counters: map[string]prometheus.Counter{},
	}
	for _, v := range append(values, other) {
		l.counters[v] = l.vec.WithLabelValues(v)
	}
	return l
}

func (l labelled) count(value string) {
	c := l.counters[value]
	if c == nil {
		c = l.counters[other]
	}
	c.Inc()
}

// NewFollowers returns counters that Register is to be told of.
func NewFollowers() *Followers {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Followers{
		opened:     counter("chathome_sockets_opened_total", "WebSockets that were let in."),
		closed:     newLabelled("chathome_sockets_closed_total", "WebSockets that ended, by how; slow and silent were cut by this instance.", "how", ws.EndClient, ws.EndServer, ws.EndSilent, ws.EndSlow, ws.EndReset),
		refused:    newLabelled("chathome_sockets_refused_total", "WebSockets that were not let in, by why.", "why", ws.RefusedHere, ws.RefusedFrom, ws.RefusedStop, ws.RefusedHow),
		operations: newLabelled("chathome_socket_operations_total", "Operations begun on WebSockets, by kind.", "kind", "query", "mutation", "subscription", "invalid"),
		executed:   counter("chathome_event_executions_total", "Events of subscriptions that the executor was asked for; others were shared."),
		delivered:  counter("chathome_events_delivered_total", "Events handed to live subscribers."),
		delayed:    counter("chathome_events_delayed_total", "Events that did not go out at once, because the client was slow."),
		cut:        counter("chathome_subscriptions_cut_total", "Subscriptions that ended because their client was too slow, or gone."),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "chathome_reader_lag_messages", Help: "How many messages (or rooms) a subscriber was behind when it was sent an event to catch up, after a pause or a resume.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 9), // to 65,536
		}),
	}
}

func (f *Followers) collectors() []prometheus.Collector {
	return []prometheus.Collector{f.opened, f.closed.vec, f.refused.vec, f.operations.vec, f.executed, f.delivered, f.delayed, f.cut, f.lag}
}

// Opened implements ws.Observer.
func (f *Followers) Opened() { f.opened.Inc() }

// Closed implements ws.Observer.
func (f *Followers) Closed(how string) { f.closed.count(how) }

// Refused implements ws.Observer.
func (f *Followers) Refused(why string) { f.refused.count(why) }

// Operation implements ws.Observer.
func (f *Followers) Operation(kind string) { f.operations.count(kind) }

// Executed implements fanout.Observer.
func (f *Followers) Executed() { f.executed.Inc() }

// Delivered implements fanout.Observer.
func (f *Followers) Delivered(n, pending int) {
	f.delivered.Add(float64(n))
	f.delayed.Add(float64(pending))
}

// CaughtUp implements fanout.Observer.
func (f *Followers) CaughtUp(behind domain.Serial) { f.lag.Observe(float64(behind)) }

// Cut implements fanout.Observer.
func (f *Followers) Cut() { f.cut.Inc() }
