package local_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

// model is the fold written as simply as it can be: slices, and a look at every message for every record.
type model struct {
	rooms   map[uuid.UUID]*modelRoom
	damaged bool
}

type modelRoom struct {
	info     domain.ChatRoomInfo
	messages []domain.Message
	lastAt   domain.Millis
}

func (m *model) apply(off domain.Offset, value []byte) local.Verdict {
	var v record.View
	switch {
	case v.Decode(value) != nil:
		return local.Rubbish
	case v.Kind == record.KindUnknown:
		return local.UnknownKind
	case !v.Counts(off):
		return local.Void
	case v.Kind == record.KindTakeover:
		return local.Takeover
	}
	verdict := local.Counted
	r := m.rooms[v.Room]
	if v.Kind == record.KindChatRoomCreated {
		if r != nil {
			verdict = local.Skipped
		} else {
			m.rooms[v.Room] = &modelRoom{domain.ChatRoomInfo{ID: v.Room, Name: string(v.Name), Shard: 5, CreatedAt: v.Time}, nil, v.Time}
		}
	} else {
		if r == nil {
			r = &modelRoom{domain.ChatRoomInfo{ID: v.Room, Shard: 5, CreatedAt: v.Time}, nil, v.Time}
			m.rooms[v.Room] = r
			verdict = local.Orphan
		} else if v.Serial > r.last()+1 {
			verdict = local.Ahead
		}
		known := v.Serial <= r.last()
		for _, have := range r.messages {
			known = known || have.User == string(v.User) && have.ClientID == string(v.ClientID)
		}
		if known {
			verdict = local.Skipped
		} else {
			r.messages = append(r.messages, domain.Message{Room: v.Room, Serial: v.Serial, User: string(v.User),
				ClientID: string(v.ClientID), Text: string(v.Text), SentAt: v.Time})
			r.lastAt = max(r.lastAt, v.Time)
		}
	}
	m.damaged = m.damaged || verdict.Anomaly()
	return verdict
}

func (r *modelRoom) last() domain.Serial {
	if len(r.messages) == 0 {
		return 0
	}
	return r.messages[len(r.messages)-1].Serial
}

func (r *modelRoom) read(q domain.Range) domain.Page {
	var in []domain.Message
	for _, m := range r.messages {
		if m.Serial > q.After && (q.Before <= 0 || m.Serial < q.Before) {
			in = append(in, m)
		}
	}
	if q.FromEnd {
		slices.Reverse(in)
	}
	bytes := 0
	for i, m := range in {
		if bytes += len(m.Text); i == q.Limit || i > 0 && q.MaxBytes > 0 && bytes > q.MaxBytes {
			in = in[:i]
			break
		}
	}
	if q.FromEnd {
		slices.Reverse(in)
	}
	p := domain.Page{Messages: in}
	for _, m := range r.messages {
		if len(in) > 0 {
			p.HasPrevious = p.HasPrevious || m.Serial < in[0].Serial
			p.HasNext = p.HasNext || m.Serial > in[len(in)-1].Serial
		} else {
			p.HasPrevious = p.HasPrevious || m.Serial <= q.After
			p.HasNext = p.HasNext || q.Before > 0 && m.Serial >= q.Before
		}
	}
	return p
}

// machine drives a store and a model with the same log.
type machine struct {
	t      *rapid.T
	fs     *vfs.MemFS
	store  *local.Store
	shard  *local.Shard
	fold   *local.Fold
	values [][]byte
	tip    model // of all values, to make fitting records
	clock  domain.Millis
}

func (m *machine) open() {
	s, err := local.Open(local.Config{Dir: "data", FS: m.fs, MemTableBytes: 64 << 10, CacheBytes: 1 << 20,
		Log: slog.New(slog.NewTextHandler(failOnLog{m.t}, nil))})
	if err != nil {
		m.t.Fatal(err)
	}
	m.store = s
	m.shard = s.Shard(5)
	m.begin()
}

// begin takes the store up where it stands.
func (m *machine) begin() {
	m.settle()
	p, err := m.shard.Position()
	if err != nil {
		m.t.Fatal(err)
	}
	if int(p.Next) > len(m.values) {
		m.t.Fatalf("position %d of %d", p.Next, len(m.values))
	}
	m.fold = m.shard.NewFold(p)
}

// settle ends a commit that is under way beside. What became of it shows in the position.
func (m *machine) settle() {
	if m.fold != nil {
		_ = m.fold.Wait()
	}
}

func (m *machine) close() {
	if m.store != nil {
		if err := m.store.Close(); err != nil {
			m.t.Fatal(err)
		}
		m.store = nil
	}
}

func (m *machine) append(value []byte) {
	m.tip.apply(domain.Offset(len(m.values)), value)
	m.values = append(m.values, value)
}

var modelRooms = []uuid.UUID{roomID(1), roomID(2), roomID(3), {0xff, 0xff}, uuid.Max}

func (m *machine) Messages(t *rapid.T) {
	n := rapid.SampledFrom([]int{1, 1, 5, 70, 200}).Draw(t, "messages")
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	for range n {
		room := modelRooms[rnd.IntN(len(modelRooms))]
		m.clock++
		msg := domain.Message{Room: room, User: []string{"al", "bo"}[rnd.IntN(2)], ClientID: fmt.Sprint(len(m.values)),
			Text: "hello, world"[:rnd.IntN(13)], SentAt: m.clock}
		at := domain.Offset(len(m.values))
		if r := m.tip.rooms[room]; r != nil {
			msg.Serial = r.last() + 1
		} else if rnd.IntN(30) > 0 {
			m.append(record.AppendChatRoom(nil, at, &domain.ChatRoomInfo{ID: room, Name: "n", CreatedAt: m.clock}))
			continue
		} else { // an orphan
			msg.Serial = domain.Serial(1 + rnd.IntN(100))
		}
		m.append(record.AppendMessage(nil, at, &msg))
	}
}

func (m *machine) Void(t *rapid.T) {
	msg := domain.Message{Room: modelRooms[0], Serial: 1, User: "al", ClientID: "void", Text: "void"}
	m.append(record.AppendMessage(nil, domain.Offset(len(m.values)+rapid.SampledFrom([]int{-3, -1, 1, 2}).Draw(t, "by")), &msg))
}

func (m *machine) Strange(t *rapid.T) {
	m.append(rapid.SampledFrom([][]byte{
		{}, {0, 0, 0, 0, 0, 1}, []byte("rubbish"),
		protowire.AppendString(protowire.AppendTag(nil, 9, protowire.BytesType), "news"),
		record.AppendTakeover(nil, &record.Takeover{Tenure: uuid.UUID{1}, Time: 5}),
	}).Draw(t, "value"))
}

// Misfit is what only a damaged log holds.
func (m *machine) Misfit(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		return
	}
	room := rapid.SampledFrom(modelRooms).Draw(t, "room")
	r := m.tip.rooms[room]
	at := domain.Offset(len(m.values))
	if r == nil {
		return
	}
	msg := domain.Message{Room: room, Serial: r.last() + 1, User: "al", ClientID: fmt.Sprint(at), Text: "misfit", SentAt: m.clock}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		msg.Serial = domain.Serial(rapid.Int64Range(1, int64(max(r.last(), 1))).Draw(t, "known serial"))
	case 1:
		msg.Serial += domain.Serial(rapid.SampledFrom([]int64{1, 3, 64, 1000}).Draw(t, "ahead"))
	case 2:
		m.append(record.AppendChatRoom(nil, at, &domain.ChatRoomInfo{ID: room, Name: "again", CreatedAt: m.clock}))
		return
	case 3: // a client id again: only a log that is damaged already can hold it
		if !m.tip.damaged || len(r.messages) == 0 {
			return
		}
		old := rapid.SampledFrom(r.messages).Draw(t, "old")
		msg.User, msg.ClientID = old.User, old.ClientID
		msg.Serial += domain.Serial(rapid.IntRange(0, 1).Draw(t, "ahead too"))
	}
	m.append(record.AppendMessage(nil, at, &msg))
}

// Apply folds up to some offset, sometimes from below the position on.
func (m *machine) Apply(t *rapid.T) {
	next := m.fold.Position().Next
	to := domain.Offset(rapid.IntRange(int(next), len(m.values)).Draw(t, "to"))
	ref := m.modelAt(next)
	buf := []byte(nil)
	var v record.View
	for off := max(next-3, 0); off < to; off++ {
		buf = append(buf[:0], m.values[off]...) // the fold must not keep it
		got := m.fold.Apply(off, buf, &v)
		want := local.Repeated
		if off >= next {
			want = ref.apply(off, m.values[off])
		}
		if got != want {
			t.Fatalf("offset %d: %v, want %v (%v)", off, got, want, m.fold.Err())
		}
	}
}

func (m *machine) Commit(t *rapid.T) {
	if err := m.fold.Commit(func(commit func() error) error { return commit() }); err != nil {
		t.Fatal(err)
	}
	if p, err := m.shard.Position(); err != nil || p != m.fold.Position() && p != (local.Position{}) {
		t.Fatalf("position %+v, the fold's %+v, %v", p, m.fold.Position(), err)
	}
}

func (m *machine) CommitBeside(t *rapid.T) {
	if err := m.fold.CommitBeside(func(commit func() error) error { return commit() }); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) Refuse(t *rapid.T) {
	refused := fmt.Errorf("not the owner any more")
	before, _ := m.shard.Position()
	if rapid.Bool().Draw(t, "beside") && m.fold.Position().Next > before.Next {
		if err := m.fold.Wait(); err != nil {
			t.Fatal(err)
		}
		if err := m.fold.CommitBeside(func(func() error) error { return refused }); err != nil && err != refused {
			t.Fatal(err)
		}
		var v record.View // what is folded meanwhile may hear of it, and is lost in any case
		for off := m.fold.Position().Next; int(off) < len(m.values); off++ {
			m.fold.Apply(off, m.values[off], &v)
		}
	}
	if err := m.fold.Commit(func(func() error) error { return refused }); err != refused {
		t.Fatal(err)
	}
	m.begin()
}

func (m *machine) Reopen(*rapid.T) {
	m.close()
	m.open()
}

// Crash loses what was not synced, or a part of it.
func (m *machine) Crash(t *rapid.T) {
	cfg := vfs.CrashCloneCfg{UnsyncedDataPercent: rapid.SampledFrom([]int{0, 50, 100}).Draw(t, "survives"),
		RNG: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}
	clone := m.fs.CrashClone(cfg)
	m.close()
	m.fs = clone
	m.open()
}

func (m *machine) Drop(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "rarely") > 0 {
		return
	}
	if rapid.Bool().Draw(t, "all") {
		if err := m.store.DropAll(); err != nil {
			t.Fatal(err)
		}
		m.shard = m.store.Shard(5)
	} else if err := m.shard.Drop(); err != nil {
		t.Fatal(err)
	}
	if p, err := m.shard.Position(); err != nil || p != (local.Position{}) {
		t.Fatal(p, err)
	}
	m.begin()
}

func (m *machine) modelAt(next domain.Offset) *model {
	ref := &model{rooms: map[uuid.UUID]*modelRoom{}}
	for off := range next {
		ref.apply(off, m.values[off])
	}
	return ref
}

// Check compares what is committed.
func (m *machine) Check(t *rapid.T) {
	if err := m.fold.Wait(); err != nil {
		t.Fatal(err)
	}
	p, err := m.shard.Position()
	if err != nil {
		t.Fatal(err)
	}
	ref := m.modelAt(p.Next)
	if p.Damaged != ref.damaged || p.Next > 0 && (p.Hash != record.Hash(m.values[p.Next-1]) || p.Kinds != record.KnownKinds) {
		t.Fatalf("position %+v, damaged %v", p, ref.damaged)
	}
	var have []domain.ChatRoomInfo
	if err := m.shard.EachRoom(func(info domain.ChatRoomInfo) bool {
		have = append(have, info)
		return true
	}); err != nil || len(have) != len(ref.rooms) {
		t.Fatalf("%d rooms, want %d: %v", len(have), len(ref.rooms), err)
	}
	for _, id := range modelRooms {
		r := ref.rooms[id]
		room, ok, err := m.shard.Room(id)
		if err != nil || ok != (r != nil) {
			t.Fatalf("room %v: %v %v", id, ok, err)
		}
		if r == nil {
			r = &modelRoom{}
		} else if room != (domain.ChatRoom{Info: r.info, Last: r.last(), LastAt: r.lastAt}) || !slices.Contains(have, r.info) {
			t.Fatalf("room %+v, want %+v", room, r)
		}
		oldest, err := m.shard.Oldest(id)
		if err != nil || len(r.messages) > 0 && oldest != r.messages[0].Serial || len(r.messages) == 0 && oldest != 0 {
			t.Fatalf("oldest %d, %v", oldest, err)
		}
		top := int64(r.last()) + 3
		for range 4 {
			q := domain.Range{
				After: domain.Serial(rapid.Int64Range(0, top).Draw(t, "after")), Before: domain.Serial(rapid.Int64Range(0, top).Draw(t, "before")),
				Limit: rapid.SampledFrom([]int{1, 2, 50, 1000}).Draw(t, "limit"), FromEnd: rapid.Bool().Draw(t, "from end"),
				MaxBytes: rapid.SampledFrom([]int{0, 0, 1, 30}).Draw(t, "bytes"),
			}
			got, err := m.shard.Read(id, q)
			if want := r.read(q); err != nil || !slices.Equal(got.Messages, want.Messages) ||
				got.HasNext != want.HasNext || got.HasPrevious != want.HasPrevious {
				t.Fatalf("read %+v of a room with %d…%d:\n got %v %v\nwant %v", q, oldest, r.last(), got, err, want)
			}
		}
		for _, want := range r.messages {
			if got, ok, err := m.shard.Find(id, want.User, want.ClientID); err != nil || !ok || got != want {
				t.Fatalf("find %v: %v %v %v", want, got, ok, err)
			}
		}
		for _, unknown := range []string{"", "void", "x"} {
			if _, ok, err := m.shard.Find(id, "al", unknown); ok || err != nil {
				t.Fatal(ok, err)
			}
		}
	}
}

// failOnLog: nothing in this test is a reason to log.
type failOnLog struct{ t *rapid.T }

func (h failOnLog) Write(b []byte) (int, error) {
	h.t.Fatalf("logged: %s", b)
	return 0, nil
}

// TestFold_EqualsModel: whatever the log holds, and whatever happens to the process, the local data are the fold of
// the log up to the position.
func TestFold_EqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{t: t, fs: vfs.NewCrashableMem(), tip: model{rooms: map[uuid.UUID]*modelRoom{}}}
		m.open()
		defer m.close()
		t.Repeat(map[string]func(*rapid.T){
			"messages": m.Messages, "void": m.Void, "strange": m.Strange, "misfit": m.Misfit, "apply": m.Apply,
			"commit": m.Commit, "commit beside": m.CommitBeside, "refuse": m.Refuse, "reopen": m.Reopen, "crash": m.Crash, "drop": m.Drop, "check": m.Check,
		})
		m.Check(t)
	})
}
