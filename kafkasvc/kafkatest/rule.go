package kafkatest

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Action is what becomes of a request that a Rule matches.
type Action uint8

const (
	// LoseAnswer: the cluster gets the request and carries it out; its answer is lost, the connection cut.
	LoseAnswer Action = iota
	// CutBefore: the connection is cut before the cluster gets the request.
	CutBefore
	// HoldRequest: the cluster gets the request after Delay.
	HoldRequest
	// HoldAnswer: the answer arrives after Delay.
	HoldAnswer
	// LandLate: the connection is cut; the cluster gets the request all the same, after Delay, and its answer
	// goes nowhere.
	LandLate
	// Duplicate: the cluster gets the request as usual and a second time after Delay, over a connection of its
	// own. Nobody hears the second answer.
	Duplicate
	// Swallow: the request vanishes and the connection stays open without an answer.
	Swallow
)

// AnyKey lets a Rule match requests of every kind.
const AnyKey int16 = -1

// Rule is a fault on the way between a client and the cluster.
type Rule struct {
	Action Action
	Key    int16 // which requests: kmsg.Fetch.Int16() …, or AnyKey; zero is Produce
	Topic  string
	// Partitions are those it applies to; nil: all.
	Partitions []int32
	ClientID   string // prefix of the client id; "" matches all
	Count      int    // how many requests; 0 means one, negative until Stop
	Every      int    // every n-th that matches; 0 and 1 mean each one
	Delay      time.Duration
}

// Armed is a rule at work.
type Armed struct {
	rule Rule
	link *Link
	left int // guarded by link.mu; negative: no limit
	seen int // guarded by link.mu
	hits atomic.Int64
}

// Hits says how many requests it was applied to.
func (a *Armed) Hits() int { return int(a.hits.Load()) }

// Stop takes it away.
func (a *Armed) Stop() {
	a.link.mu.Lock()
	defer a.link.mu.Unlock()
	a.link.rules = slices.DeleteFunc(a.link.rules, func(x *Armed) bool { return x == a })
}

func (r *Rule) matches(q *request) bool {
	return (r.Key == q.key || r.Key == AnyKey) &&
		(r.Topic == "" || slices.Contains(q.topics, r.Topic)) &&
		(r.Partitions == nil || slices.ContainsFunc(q.partitions, func(p int32) bool { return slices.Contains(r.Partitions, p) })) &&
		strings.HasPrefix(q.clientID, r.ClientID)
}
