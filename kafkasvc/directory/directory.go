package directory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/feed"
)

var errStopped = errors.New("directory: stopped")

// Directory implements domain.Directory. All its methods may be called at any time by any goroutine, before Run too.
type Directory struct {
	cfg   Config
	topic Topic
	store Store

	entries chan *entry   // to the appender
	kicked  chan struct{} // to the rounds: next was set
	stopped chan struct{} // closed when Run has returned
	lost    atomic.Int64  // time (ns) of the last fault of Kafka, 0: none
	stats   stats

	// Of the tail alone:
	proposal Life      // the Home that it appends where there is none
	saidWhy  string    // the last line in the log about why it does not follow
	saidAt   time.Time // when; zero since it last followed

	mu      sync.Mutex // never held across I/O or a callback
	pos     Position   // committed
	owners  map[domain.ShardID]OwnerEntry
	feed    *feed.Feed
	epoch   uint64             // counts views: one more whenever the view was dropped
	whole   bool               // the view has reached an end of the topic since it was dropped
	readAt  time.Time          // when the last reading to an end began, zero if none since it was dropped
	broken  error              // why the view has to be dropped; nil: it has not
	follows bool               // the tail reads, and what it read before is what the log holds
	why     error              // while it does not follow: why
	detach  context.CancelFunc // ends the tail's present reading, so that it looks at the first record again
	news    chan struct{}      // closed and replaced whenever one of the above changed
	next    *round             // the round that the next caller joins; nil: none waits
	seenAt  time.Time          // when the life was last seen to be the present one
}

var _ domain.Directory = (*Directory)(nil)

// New returns a directory that answers what its store holds. Run brings it up to date.
func New(cfg Config) (*Directory, error) {
	cfg = cfg.withDefaults()
	if cfg.Shards < 1 || cfg.Shards > maxShards {
		return nil, fmt.Errorf("directory: %d shards: want 1 to %d", cfg.Shards, maxShards)
	}
	pos, owners, err := cfg.Store.Load()
	switch {
	case errors.Is(err, ErrViewLost):
		cfg.Log.Warn("the stored directory cannot be used: reading it again", "err", err)
		pos, owners = Position{}, nil
	case err != nil:
		return nil, fmt.Errorf("load the directory from the local store: %w", err)
	}
	d := &Directory{
		cfg:     cfg,
		topic:   cfg.Topic,
		store:   cfg.Store,
		entries: make(chan *entry, 1024),
		kicked:  make(chan struct{}, 1),
		stopped: make(chan struct{}),
		pos:     pos,
		owners:  ownerMap(owners),
		whole:   pos.Life != Life{},
		feed:    feed.New(pos.Rooms, nil),
		why:     errors.New("starting"),
		news:    make(chan struct{}),
	}
	return d, nil
}

func ownerMap(owners []OwnerEntry) map[domain.ShardID]OwnerEntry {
	m := make(map[domain.ShardID]OwnerEntry, len(owners))
	for _, o := range owners {
		m[o.Shard] = o
	}
	return m
}

// Run follows the topic until ctx ends. It is called once and returns nil; faults of Kafka and of the store are
// waited out.
func (d *Directory) Run(ctx context.Context) error {
	defer close(d.stopped)
	var wg sync.WaitGroup
	wg.Go(func() { d.tail(ctx) })
	wg.Go(func() { d.rounds(ctx) })
	wg.Go(func() { d.appender(ctx) })
	wg.Go(func() { d.checks(ctx) })
	wg.Wait()
	d.update(func() { d.follows, d.why = false, errStopped })
	return nil
}

// WaitLife waits until the life is known from the topic and the view has reached the topic's present end. Then the
// messages topic may be created, with the shard count of the life.
func (d *Directory) WaitLife(ctx context.Context) (Life, error) {
	err := d.await(ctx, func() bool { return d.follows })
	if err == nil {
		err = d.upToDate(ctx)
	}
	if err != nil {
		return Life{}, fmt.Errorf("wait for the directory: %w", errors.Join(err, d.Ready()))
	}
	return d.Life(), nil
}

// Ready is nil while the directory follows its topic; otherwise it says what it waits for.
func (d *Directory) Ready() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.follows {
		return nil
	}
	return fmt.Errorf("directory: %w", d.why)
}

// Life is the life that the answers are of: confirmed by the topic (WaitLife) or, before that, the one of the store.
func (d *Directory) Life() Life { return d.position().Life }

// Home is the home id, the zero uuid until it is known.
func (d *Directory) Home() uuid.UUID { return d.Life().Home }

// ShardCount is the pinned number of shards, 0 until it is known.
func (d *Directory) ShardCount() int { return d.Life().Shards }

func (d *Directory) position() Position {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pos
}

// update changes the shared state and tells everybody who waits for it.
func (d *Directory) update(f func()) {
	d.mu.Lock()
	f()
	close(d.news)
	d.news = make(chan struct{})
	d.mu.Unlock()
}

// await returns nil once cond holds. cond is called under mu.
func (d *Directory) await(ctx context.Context, cond func() bool) error {
	for {
		d.mu.Lock()
		ok, news := cond(), d.news
		d.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.stopped:
			return errStopped
		}
	}
}

// pause waits, longer with each try; false: ctx ended.
func (d *Directory) pause(ctx context.Context, try int) bool {
	wait := d.cfg.BackoffMin << min(try, 16)
	if wait > d.cfg.BackoffMax || wait <= 0 {
		wait = d.cfg.BackoffMax
	}
	return sleep(ctx, wait)
}

func sleep(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
