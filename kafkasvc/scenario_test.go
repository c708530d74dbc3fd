package kafkasvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

var errTooLarge = kafka.MessageSizeTooLarge

// TestScenarios runs the scripts in testdata/scenario: one shard's keeper (takeover, loading, writer, gate)
// over a log in memory that misbehaves as told. Rewrite the expectations with -rewrite and read the diff.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenario", func(t *testing.T, path string) {
		bubbletest.Test(t, func(t *testing.T) {
			s := newStage(t)
			defer s.close()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return s.run(t, d) })
		})
	})
}

// stage is a gate with up to four shards, each over a memLog, and what happened since it was last asked.
type stage struct {
	t      *testing.T
	store  *local.Store
	gate   *gate
	policy Policy
	shards []*shard
	logs   []*memLog
	ids    *tenureIDs
	budget *budget

	gen     *generation
	lease   *fakeLease
	stop    context.CancelCauseFunc
	keepers []*keeper
	genID   int32

	mu      sync.Mutex
	events  []string
	names   map[string]uuid.UUID
	pending map[string]*sentCommand
	feeds   map[string]func()
}

type sentCommand struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func newStage(t *testing.T) *stage {
	store, err := local.Open(local.Config{Dir: local.InMemory})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{
		t: t, store: store, ids: newTenureIDs(), budget: &budget{bytes: 8 << 20}, policy: PolicyInstance,
		names: map[string]uuid.UUID{}, pending: map[string]*sentCommand{}, feeds: map[string]func(){},
	}
	for i := range 4 {
		id := domain.ShardID(i)
		l := newMemLog()
		s.logs = append(s.logs, l)
		s.shards = append(s.shards, &shard{id: id, log: l, ids: s.ids, store: func() *local.Shard { return store.Shard(id) }, announce: make(chan struct{}, 1)})
	}
	s.gate = newGate(s.policy, domain.Instance{ID: "me"}, func(domain.ShardID) *domain.Owner { return nil })
	return s
}

func (s *stage) close() {
	s.revoke()
	for _, l := range s.logs {
		l.release()
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	if err := s.store.Close(); err != nil {
		s.t.Error(err)
	}
}

// The house around the keepers.

func (s *stage) Instance() domain.Instance { return domain.Instance{ID: "me"} }
func (s *stage) claim(*shard) announcement {
	return func(context.Context, domain.Offset, bool) {}
}
func (s *stage) roomsOf(st *local.Shard) func(uuid.UUID) (domain.ChatRoom, bool, error) {
	return st.Room
}
func (s *stage) alarm(kind string) { s.event("alarm: %s", kind) }

func (s *stage) event(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
}

func (s *stage) flush() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sort.Strings(s.events)
	out := strings.Join(s.events, "\n")
	s.events = nil
	if out == "" {
		return ""
	}
	return out + "\n"
}

func (s *stage) room(name string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.names[name]; !ok {
		s.names[name] = uuid.NewSHA1(uuid.NameSpaceOID, []byte(name))
	}
	return s.names[name]
}

func (s *stage) assign(ids []domain.ShardID) {
	s.genID++
	s.lease = &fakeLease{}
	s.gen = &generation{id: s.genID, member: "m", lease: s.lease}
	var stop context.Context
	stop, s.stop = context.WithCancelCause(context.Background())
	s.gate.assign(s.gen, ids)
	s.keepers = nil
	lg := slog.New(slog.DiscardHandler)
	if os.Getenv("SCENARIO_LOG") != "" {
		lg = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	for _, id := range ids {
		k := newKeeper(s.gate, s.gen, s.shards[id], s, s.budget, defaultWaits(), time.Now, lg)
		s.keepers = append(s.keepers, k)
		go k.run(stop)
	}
}

// revoke is what Home.Revoked does.
func (s *stage) revoke() {
	if s.gen == nil {
		return
	}
	s.gate.lock()
	s.stop(errNotCurrent)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, k := range s.keepers {
		select {
		case <-k.done:
		case <-ctx.Done():
			s.event("shard %d: not drained", k.shard.id)
		}
		if last := k.tenure.Load(); last != nil {
			k.shard.end(last)
		}
	}
	s.gen = nil
}

func (s *stage) run(t *testing.T, d *datadriven.TestData) string {
	shardArg, from := 0, 0
	if d.HasArg("shard") {
		d.ScanArgs(t, "shard", &shardArg)
	}
	id := domain.ShardID(shardArg)
	log := s.logs[id]
	str := func(key, def string) string {
		if d.HasArg(key) {
			d.ScanArgs(t, key, &def)
		}
		return def
	}
	switch d.Cmd {
	case "gate":
		s.gate.policy = Policy(str("policy", "instance"))
	case "log": // records that lie in the log, one a line
		for line := range strings.Lines(d.Input) {
			log.put(s.record(log, strings.Fields(line)))
		}
	case "faults":
		log.mu.Lock()
		for _, a := range d.CmdArgs {
			if a.Key != "shard" && a.Key != "always" {
				log.faults = append(log.faults, fault(a.Key))
			}
		}
		log.always = fault(str("always", ""))
		log.mu.Unlock()
	case "assign":
		var ids []domain.ShardID
		for _, v := range strings.Split(str("shards", "0"), "+") {
			n, err := strconv.Atoi(v)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, domain.ShardID(n))
		}
		s.assign(ids)
	case "revoke":
		s.revoke()
	case "lease":
		s.lease.set(str("is", "") == "lapsed", str("is", "") == "over")
		if str("is", "") != "good" {
			s.gate.lapsed(s.gen)
		}
	case "create", "send":
		s.submit(id, d.Cmd, str("as", ""), str("room", "a"), str("user", "alice"), str("id", "1"), str("text", "hi"), str("for", "10s"))
	case "withdraw":
		s.pending[str("as", "")].cancel()
	case "late": // what was held on its way arrives
		log.release()
	case "truncate":
		d.ScanArgs(t, "to", &from)
		log.truncate(domain.Offset(from))
	case "hole": // offsets that nothing explains
		d.ScanArgs(t, "of", &from)
		log.skip(domain.Offset(from))
	case "delete-below":
		d.ScanArgs(t, "offset", &from)
		log.deleteBelow(domain.Offset(from))
	case "unreadable":
		log.mu.Lock()
		log.unread = errors.New("unreadable")
		log.mu.Unlock()
	case "readable":
		log.mu.Lock()
		log.unread = nil
		log.mu.Unlock()
	case "follow":
		s.follow(id, str("room", "a"))
	case "history":
		return s.history(id, str("room", "a"))
	case "show-log":
		return s.showLog(log)
	case "show":
		v := s.gate.view.Load()
		var b strings.Builder
		for i := range s.shards {
			if _, ok := v.places[domain.ShardID(i)]; ok || v.generation == nil && i == 0 {
				st := v.state(domain.ShardID(i))
				if no := s.gate.refusal(domain.ShardID(i)); no != nil {
					fmt.Fprintf(&b, "shard %d: %s", i, no.State)
					if no.Progress != nil {
						fmt.Fprintf(&b, " %d of %d", no.Progress.Loaded, no.Progress.Target)
					}
				} else {
					fmt.Fprintf(&b, "shard %d: %s", i, st)
				}
				b.WriteByte('\n')
			}
		}
		return b.String()
	case "reads":
		log.mu.Lock()
		defer log.mu.Unlock()
		n := log.reads
		log.reads = 0
		return fmt.Sprintf("%d\n", n)
	case "wait":
		wait, err := time.ParseDuration(str("for", "100ms"))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(wait)
	default:
		t.Fatalf("unknown command %q", d.Cmd)
	}
	if d.Cmd != "wait" {
		time.Sleep(5 * time.Millisecond)
	}
	synctest.Wait()
	return s.flush()
}

// record builds what stands in the log: "junk", "takeover foreign|mine", "room NAME",
// "message ROOM SERIAL USER ID TEXT [at=N]".
func (s *stage) record(log *memLog, f []string) []byte {
	log.mu.Lock()
	at := log.end()
	log.mu.Unlock()
	if last := f[len(f)-1]; strings.HasPrefix(last, "at=") {
		n, err := strconv.Atoi(last[3:])
		if err != nil {
			s.t.Fatal(err)
		}
		at = domain.Offset(n)
	}
	switch f[0] {
	case "junk":
		return []byte{0, 0, 0, 0, 0, 1}
	case "takeover":
		id := uuid.NewSHA1(uuid.NameSpaceURL, []byte(f[1]))
		if f[1] == "mine" {
			id = s.ids.draw()
		}
		return record.AppendTakeover(nil, &record.Takeover{Instance: domain.Instance{ID: f[1]}, Tenure: id, Time: 1})
	case "room":
		return record.AppendChatRoom(nil, at, &domain.ChatRoomInfo{ID: s.room(f[1]), Name: f[1], CreatedAt: 1})
	case "message":
		serial, err := strconv.Atoi(f[2])
		if err != nil {
			s.t.Fatal(err)
		}
		return record.AppendMessage(nil, at, &domain.Message{Room: s.room(f[1]), Serial: domain.Serial(serial), User: f[3], ClientID: f[4], Text: f[5], SentAt: 1})
	}
	s.t.Fatalf("unknown record %q", f)
	return nil
}

func (s *stage) submit(id domain.ShardID, cmd, as, roomName, user, clientID, text, limit string) {
	if as == "" {
		as = cmd + " " + roomName
		if cmd == "send" {
			as += " " + user + " " + clientID + " " + text
		}
	}
	d, err := time.ParseDuration(limit)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	c := newCommand(s.room(roomName))
	if cmd == "create" {
		c.create, c.name = true, roomName
	} else {
		c.draft = domain.Draft{User: user, ClientID: clientID, Text: text}
	}
	p := &sentCommand{cancel: cancel, done: make(chan struct{})}
	s.pending[as] = p
	go func() {
		defer cancel()
		defer close(p.done)
		t, err := s.gate.enter(id)
		if err != nil {
			s.event("%s: %s", as, describe(result{err: err}))
			return
		}
		s.event("%s: %s", as, describe(t.submit(ctx, c)))
	}()
}

func describe(r result) string {
	var no *domain.ShardNotOwnedError
	var unknown *domain.OutcomeUnknownError
	var mutation *domain.MessageMutationError
	switch {
	case r.err == nil && r.info.Name != "":
		return fmt.Sprintf("room stored duplicate=%t", r.duplicate)
	case r.err == nil:
		return fmt.Sprintf("stored serial=%d duplicate=%t", r.message.Serial, r.duplicate)
	case errors.As(r.err, &no):
		return "not owned " + no.State.String()
	case errors.As(r.err, &unknown):
		return "outcome unknown"
	case errors.As(r.err, &mutation):
		return fmt.Sprintf("mutation of serial=%d text=%s", mutation.Existing.Serial, mutation.Existing.Text)
	}
	return r.err.Error()
}

func (s *stage) follow(id domain.ShardID, name string) {
	t, err := s.gate.enter(id)
	if err != nil {
		s.event("follow %s: %s", name, describe(result{err: err}))
		return
	}
	st, ok, err := t.rooms.state(s.room(name))
	if err != nil || !ok {
		s.event("follow %s: no such room %v", name, err)
		return
	}
	f := st.feed.Load()
	f.Watch(func() {
		if err := f.Err(); err != nil {
			s.event("follow %s: ended: %s", name, describe(result{err: err}))
		} else {
			s.event("follow %s: tip %d", name, f.Tip())
		}
	})
}

func (s *stage) history(id domain.ShardID, name string) string {
	t, err := s.gate.enter(id)
	if err != nil {
		return describe(result{err: err}) + "\n"
	}
	p, err := t.store.Read(s.room(name), domain.Range{Limit: 100})
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	for _, m := range p.Messages {
		fmt.Fprintf(&b, "%d %s %s %s\n", m.Serial, m.User, m.ClientID, m.Text)
	}
	return b.String()
}

func (s *stage) showLog(l *memLog) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	var v record.View
	for _, r := range l.records {
		if v.Decode(r.value) != nil {
			fmt.Fprintf(&b, "%d junk\n", r.offset)
			continue
		}
		switch v.Kind {
		case record.KindTakeover:
			who := "foreign"
			if s.ids.mine(v.Tenure) {
				who = "mine"
			}
			fmt.Fprintf(&b, "%d takeover %s\n", r.offset, who)
		case record.KindChatRoomCreated:
			fmt.Fprintf(&b, "%d room %s", r.offset, v.Name)
		case record.KindMessageAdded:
			fmt.Fprintf(&b, "%d message serial=%d %s %s %s", r.offset, v.Serial, v.User, v.ClientID, v.Text)
		}
		if v.Kind != record.KindTakeover {
			if !v.Counts(r.offset) {
				fmt.Fprintf(&b, " (void, at=%d)", v.At)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}
