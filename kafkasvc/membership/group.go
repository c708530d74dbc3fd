package membership

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/chathome/chathome/domain"
)

// Config says which group to be a member of, and as whom.
type Config struct {
	Brokers  []string
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // nil: TCP
	TLS      func() *tls.Config                                                   // asked at each attempt to join; nil: none
	SASL     sasl.Mechanism                                                       // nil: none
	ClientID string

	Group    string
	Topic    string // the messages topic. It must exist before Run: the group would make the broker create it
	Shards   int    // the pinned number of shards
	Instance string // 1 to MaxInstanceBytes bytes of UTF-8

	// Held says which instance holds a shard, as far as is known (from the directory). Only a hint: it keeps
	// shards where they are. nil: nothing is known. It must not block.
	Held func(domain.ShardID) (instance string, ok bool)

	Timeouts    Timeouts
	Clock       Clock // nil: BootClock
	Coordinator Coordinator
	Log         *slog.Logger // nil: none
	Alarm       func(Alarm)  // nil: none. It must not block
}

// Coordinator asks the group's coordinator, on connections of its own, beside kafka-go's.
type Coordinator interface {
	// Heartbeat returns nil where the coordinator confirmed member and generation. A refusal is, or wraps, the
	// kafka.Error that the coordinator answered.
	Heartbeat(ctx context.Context, group string, generation int32, member string) error
	// LeaveGroup takes a member out of the group, also while its JoinGroup waits for an answer.
	LeaveGroup(ctx context.Context, group, member string) error
}

// Generation is one distribution of the shards, as this member sees it.
type Generation struct {
	ID       int32
	MemberID string
	Shards   []domain.ShardID // in order; may be empty
	Lease    *Lease
}

// Rejoin ends g on purpose: Handler.Revoked is called and the member joins again. It returns at once.
// Only the group may then decide who owns the shards: they may well come back.
func (g *Generation) Rejoin(reason error) { g.Lease.End(fmt.Errorf("rejoin: %w", reason)) }

// Handler owns the shards that the group assigns. Its methods are called in turns, never at once: Assigned,
// Revoked, Assigned, Revoked … A Revoked follows each Assigned, also when Run stops.
type Handler interface {
	// Assigned starts the tenures of g. The lease has been valid before it is called. It must return at once:
	// loading goes on beside it.
	Assigned(g *Generation)
	// Revoked locks the gate at once, then drains at most until ctx ends, and returns. The lease has ended
	// before it is called; the member rejoins or leaves the group after it has returned.
	Revoked(ctx context.Context, g *Generation)
}

// Membership is one member of the group.
type Membership struct {
	cfg     Config
	handler Handler
	since   int64 // when the last life began, Unix milliseconds; of Run's goroutine

	mu     sync.Mutex
	status Status
	lease  *Lease // of the generation, also before it began; nil where there is none
}

// Status is for readiness and metrics.
type Status struct {
	Generation  int32 // 0 while there is none
	Shards      int
	Generations int   // how many there were
	Failures    int   // attempts to join that failed, in a row
	AllFailures int   // attempts to join that failed, ever
	Lapses      int   // how often a lease has lapsed, ever
	Reason      error // why there is no generation, or why heartbeats of this one fail; nil when all is well
}

// New checks the configuration and names every fault at once.
func New(cfg Config, handler Handler) (*Membership, error) {
	var faults []error
	if len(cfg.Brokers) == 0 {
		faults = append(faults, errors.New("no brokers"))
	}
	if cfg.Group == "" {
		faults = append(faults, errors.New("no group id"))
	}
	if cfg.Topic == "" {
		faults = append(faults, errors.New("no topic"))
	}
	if cfg.Shards <= 0 {
		faults = append(faults, fmt.Errorf("shard count %d is not positive", cfg.Shards))
	}
	if _, err := parseIdentity(identity{instance: cfg.Instance}.append(nil)); err != nil || len(cfg.Instance) > MaxInstanceBytes {
		faults = append(faults, fmt.Errorf("instance id must be 1 to %d bytes of UTF-8", MaxInstanceBytes))
	}
	if cfg.Coordinator == nil {
		faults = append(faults, errors.New("no coordinator"))
	}
	faults = append(faults, cfg.Timeouts.Validate())
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("membership: %w", err)
	}
	if cfg.Clock == nil {
		cfg.Clock = BootClock
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Alarm == nil {
		cfg.Alarm = func(Alarm) {}
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	return &Membership{cfg: cfg, handler: handler}, nil
}

// Status is how things stand.
func (m *Membership) Status() Status {
	m.mu.Lock()
	s, lease := m.status, m.lease
	m.mu.Unlock()
	if lease != nil {
		if n, err := lease.Trouble(); n > 0 {
			s.Reason = fmt.Errorf("%d heartbeats in a row got no answer: %w", n, err)
		}
	}
	return s
}

const (
	firstBackoff = 200 * time.Millisecond
	lastBackoff  = 2 * time.Second
	patience     = 3               // joins that a running rebalance may refuse, generations that may end early, before we slow down
	early        = 5 * time.Second // a generation that lived longer resets the patience
	lastPause    = time.Second
)

// Run is a member of the group until ctx ends, however often joining fails. Then it leaves, within the drain
// and leave timeouts and a little more. An error names what was left behind; the group recovers from it by
// itself.
func (m *Membership) Run(ctx context.Context) error {
	backoff := firstBackoff
	for {
		began := m.Status().Generations
		err, left := m.live(ctx)
		if ctx.Err() != nil {
			return left
		}
		err = errors.Join(err, left)
		if m.Status().Generations != began {
			backoff = firstBackoff
		}
		m.failed(err, backoff)
		timer := time.NewTimer(backoff*3/4 + rand.N(backoff/2)) // spread: instances fail together
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		backoff = min(2*backoff, lastBackoff)
	}
}

// live is one membership, from the first JoinGroup until joining fails or ctx ends: why it failed, and whether
// it left anything behind.
func (m *Membership) live(ctx context.Context) (failure, left error) {
	m.since = max(m.since+1, time.Now().UnixMilli())
	b := &balancer{
		topic:    m.cfg.Topic,
		shards:   m.cfg.Shards,
		userData: identity{m.cfg.Instance, m.since}.append(nil),
		held:     m.cfg.Held,
		alarm:    m.cfg.Alarm,
	}
	var secure *tls.Config
	if m.cfg.TLS != nil {
		secure = m.cfg.TLS()
	}
	conns := newConns(m.cfg.Dial, m.cfg.Timeouts)
	cg, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:      m.cfg.Group,
		Brokers: m.cfg.Brokers,
		Dialer: &kafka.Dialer{
			ClientID:      m.cfg.ClientID,
			Timeout:       m.cfg.Timeouts.RPC,
			DialFunc:      conns.dial,
			TLS:           secure,
			SASLMechanism: m.cfg.SASL,
		},
		Topics:            []string{m.cfg.Topic},
		GroupBalancers:    []kafka.GroupBalancer{b},
		HeartbeatInterval: m.cfg.Timeouts.Heartbeat,
		SessionTimeout:    m.cfg.Timeouts.Session,
		RebalanceTimeout:  m.cfg.Timeouts.Rebalance,
		Timeout:           m.cfg.Timeouts.RPC,
		JoinGroupBackoff:  maxTimeout / 2, // the back-off is ours: after an error a new member starts over
	})
	if err != nil {
		return fmt.Errorf("configure the consumer group: %w", err), nil
	}
	l := &life{m: m, b: b, cg: cg, conns: conns, stop: ctx.Done()}
	refused := 0
	for {
		gen, err := cg.Next(ctx)
		switch {
		case err == nil:
			refused = 0
			l.begin(gen)
		case ctx.Err() != nil:
			return nil, l.leave()
		case errors.Is(err, kafka.RebalanceInProgress):
			// kafka-go keeps the member and joins again at once, which is right while others come and go. Its
			// next failure waits until we ask for it: that is how to slow it down.
			refused++
			m.refused(err)
			pause(refused, ctx.Done())
		default:
			// kafka-go has given the member up, and in most cases forgotten its id without leaving.
			left = l.leave()
			if l.member != "" && !errors.Is(err, kafka.UnknownMemberId) {
				l.leaveOnOurOwn(m.cfg.Timeouts.RPC)
			}
			return err, left
		}
	}
}

// life is one kafka-go ConsumerGroup.
type life struct {
	m      *Membership
	b      *balancer
	cg     *kafka.ConsumerGroup
	conns  *conns
	member string        // the member id of the last generation
	tenure chan struct{} // closed when the last generation's function has returned
	stop   <-chan struct{}
	short  int // generations in a row that we ended early ourselves

	mu      sync.Mutex
	seat    *seat // between two generations; nil during one, and while there was none yet
	leaving bool  // no more seats
}

// sit changes the seat and releases the last one.
func (l *life) sit(next *seat) {
	l.mu.Lock()
	last := l.seat
	l.seat = next
	if l.leaving {
		last, l.seat = next, nil
	}
	l.mu.Unlock()
	last.release()
}

// stand releases the seat; there will be no other one.
func (l *life) stand() {
	l.mu.Lock()
	l.leaving = true
	last := l.seat
	l.seat = nil
	l.mu.Unlock()
	last.release()
}

func (l *life) begin(gen *kafka.Generation) {
	if l.tenure != nil {
		// kafka-go has waited for it, but for a generation that was over before its function started.
		<-l.tenure
	}
	l.sit(nil)
	l.member = gen.MemberID
	done := make(chan struct{})
	l.tenure = done
	gen.Start(func(ctx context.Context) {
		defer close(done)
		l.hold(ctx, gen)
	})
}

// hold runs as long as the generation: kafka-go rejoins, and the next owner starts, only after it has returned.
func (l *life) hold(ctx context.Context, gen *kafka.Generation) {
	m, began := l.m, time.Now()
	g := &Generation{
		ID:       gen.ID,
		MemberID: gen.MemberID,
		Shards:   l.b.shardsOf(gen),
		Lease:    NewLease(m.cfg.Clock, m.cfg.Timeouts.Term()),
	}
	m.mu.Lock()
	m.lease = g.Lease
	m.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var keeper sync.WaitGroup
	defer keeper.Wait()
	defer stop()
	keeper.Go(func() {
		g.Lease.Keep(ctx, m.cfg.Timeouts.Heartbeat, m.cfg.Timeouts.RPC, func(ctx context.Context) error {
			return m.cfg.Coordinator.Heartbeat(ctx, m.cfg.Group, g.ID, g.MemberID)
		})
	})
	// Without a good heartbeat nothing could be served anyhow, so that nobody has to think of a generation
	// that has no lease yet.
	if err := g.Lease.wait(ctx, never); err == nil && ctx.Err() == nil {
		m.began(g)
		keeper.Go(func() { m.tellLapses(ctx, g) })
		m.handler.Assigned(g)
		select {
		case <-ctx.Done():
		case <-g.Lease.Done():
		}
		select {
		case <-l.stop:
			g.Lease.End(ErrStopped)
		default:
			g.Lease.End(ErrGeneration) // unless it has ended for a better reason
		}
		m.ended(g)
		over := time.Now()
		if err := g.Lease.Err(); !errors.Is(err, ErrStopped) && !errors.Is(err, ErrEvicted) {
			place := l.keepSeat(g)
			l.sit(place)
			defer place.rejoin()
		}
		dctx, cancel := context.WithTimeout(context.Background(), m.cfg.Timeouts.drain())
		defer cancel()
		m.handler.Revoked(dctx, g)
		if took := time.Since(over); took > 2*m.cfg.Timeouts.drain() {
			m.cfg.Log.Warn("the drain took too long: the group may have evicted this member", "generation", g.ID, "took", took)
		}
	} else {
		g.Lease.End(ErrGeneration)
		m.missed(g)
	}
	switch err := g.Lease.Err(); {
	case time.Since(began) > early:
		l.short = 0
	case !errors.Is(err, ErrRebalance) && !errors.Is(err, ErrGeneration) && !errors.Is(err, ErrStopped):
		// A coordinator that takes us in and disowns us, or a tenure that does not want its shards: rejoining
		// without a pause would make everybody rebalance without end.
		l.short++
		pause(l.short, l.stop)
	}
}

// pause waits longer with each failure in a row, until stop.
func pause(failures int, stop <-chan struct{}) {
	if failures <= patience {
		return
	}
	timer := time.NewTimer(min(firstBackoff*time.Duration(failures-patience), lastPause))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	}
}

func (m *Membership) began(g *Generation) {
	m.mu.Lock()
	m.status.Generation, m.status.Shards = g.ID, len(g.Shards)
	m.status.Generations++
	m.status.Failures, m.status.Reason = 0, nil
	m.mu.Unlock()
	m.cfg.Log.Info("generation began", "generation", g.ID, "member", g.MemberID, "shards", slices.Clone(g.Shards))
}

// tellLapses runs beside a generation that has begun.
func (m *Membership) tellLapses(ctx context.Context, g *Generation) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.Lease.Lapsed():
		}
		if g.Lease.Err() != nil {
			return
		}
		m.mu.Lock()
		m.status.Lapses++
		m.mu.Unlock()
		_, err := g.Lease.Trouble()
		m.cfg.Log.Warn("lease lapsed", "generation", g.ID, "err", err)
		if g.Lease.Confirm(ctx) != nil {
			return
		}
		m.cfg.Log.Info("lease healed", "generation", g.ID)
	}
}

func (m *Membership) ended(g *Generation) {
	m.mu.Lock()
	m.lease = nil
	m.status.Generation, m.status.Shards = 0, 0
	m.status.Reason = g.Lease.Err()
	m.mu.Unlock()
	m.cfg.Log.Info("generation ended", "generation", g.ID, "err", g.Lease.Err())
}

// missed: the group gave a generation that ended before one heartbeat of our own got through.
func (m *Membership) missed(g *Generation) {
	_, last := g.Lease.Trouble()
	m.mu.Lock()
	m.lease = nil
	m.status.Failures++
	m.status.AllFailures++
	m.status.Reason = fmt.Errorf("no heartbeat got through: %w", errors.Join(g.Lease.Err(), last))
	m.mu.Unlock()
	m.cfg.Log.Warn("generation ended before it began", "generation", g.ID, "err", g.Lease.Err(), "heartbeat", last)
}

// refused: the group was rebalanced again before this member had its shards.
func (m *Membership) refused(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status.Reason = err
}

func (m *Membership) failed(err error, backoff time.Duration) {
	err = explain(err, m.cfg)
	m.mu.Lock()
	m.status.Failures++
	m.status.AllFailures++
	m.status.Reason = err
	n := m.status.Failures
	m.mu.Unlock()
	if n&(n-1) != 0 {
		return // the 1st, 2nd, 4th, 8th … in a row: it may go on for days
	}
	m.cfg.Log.Warn("cannot join the group", "group", m.cfg.Group, "attempt", n, "again_after", backoff, "err", err)
}
