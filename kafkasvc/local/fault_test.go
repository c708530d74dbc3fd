package local_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

// brokenDisk fails operations of one kind from the n-th on, until it is healed.
type brokenDisk struct {
	kind   errorfs.OpReadWrite
	after  int64
	once   bool
	count  atomic.Int64
	failed atomic.Int64
	healed atomic.Bool
}

func (d *brokenDisk) String() string { return "broken disk" }

func (d *brokenDisk) MaybeError(op errorfs.Op) error {
	if op.Kind.ReadOrWrite() != d.kind || op.Kind == errorfs.OpLock || d.healed.Load() {
		return nil
	}
	// Of reads, only those of content fail: a directory that cannot be listed is another story.
	if d.kind == errorfs.OpIsRead && op.Kind != errorfs.OpFileReadAt && op.Kind != errorfs.OpFileRead {
		return nil
	}
	if n := d.count.Add(1); n < d.after || d.once && n > d.after {
		return nil
	}
	d.failed.Add(1)
	return fmt.Errorf("broken: %w", syscall.ENOSPC)
}

// TestStore_SurvivesABrokenDisk: a disk that is full or failing from any write on, or fails one read, neither ends the
// process nor makes a call hang nor shows in a wrong answer. It is reported. What is on the disk then is an earlier
// state; and once the disk is well, DropAll starts anew.
func TestStore_SurvivesABrokenDisk(t *testing.T) {
	h := newHouse()
	run := func(t *testing.T, disk *brokenDisk) {
		mem := vfs.NewMem()
		fs := errorfs.Wrap(mem, disk)
		cfg := local.Config{Dir: "data", FS: fs, MemTableBytes: 32 << 10, CacheBytes: 1 << 10}
		s, err := local.Open(cfg)
		if err != nil {
			if disk.failed.Load() == 0 {
				t.Fatal(err)
			}
			disk.healed.Store(true)
			if s, err = local.Open(cfg); err != nil {
				t.Fatalf("after the disk was healed: %v", err)
			}
		}
		fillErr := h.fill(s)
		wrong, readErr := h.wrong(s)
		if wrong != "" {
			t.Errorf("wrong answer: %s (%v)", wrong, readErr)
		}
		for _, err := range []error{fillErr, readErr} {
			if err != nil && (!errors.Is(err, local.ErrFault) || s.Fault() == nil) {
				t.Errorf("%v; fault: %v", err, s.Fault())
			}
		}
		if s.Fault() != nil {
			select {
			case <-s.Faulted():
			default:
				t.Error("Faulted is not closed")
			}
			if disk.kind == errorfs.OpIsWrite && !errors.Is(s.Fault(), syscall.ENOSPC) {
				t.Errorf("the fault does not say why: %v", s.Fault())
			}
		}
		// A restart finds an earlier state, or rebuilds.
		left := copyFS(t, mem)
		if wrong, err := func() (string, error) {
			s, err := local.Open(local.Config{Dir: "data", FS: left})
			if err != nil {
				return "", err
			}
			defer s.Close()
			return h.wrong(s)
		}(); wrong != "" || err != nil {
			t.Errorf("after a restart: %s %v", wrong, err)
		}
		// The same process goes on when the disk is well.
		disk.healed.Store(true)
		old := s.Shard(0)
		if err := s.DropAll(); err != nil {
			t.Fatal(err)
		}
		if _, err := old.Position(); !errors.Is(err, local.ErrStale) {
			t.Errorf("a shard of before: %v", err)
		}
		if err := h.fill(s); err != nil {
			t.Fatal(err)
		}
		if wrong, err := h.wrong(s); wrong != "" || err != nil {
			t.Errorf("after DropAll: %s %v", wrong, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, tc := range []struct {
		name string
		kind errorfs.OpReadWrite
		once bool
	}{
		{"disk full from write", errorfs.OpIsWrite, false},
		{"one failed write", errorfs.OpIsWrite, true},
		{"one failed read", errorfs.OpIsRead, true},
	} {
		calm := &brokenDisk{kind: tc.kind, after: 1 << 40}
		run(t, calm)
		total := calm.count.Load()
		for i := range int64(*faults * 3) {
			n := 1 + i*total/int64(*faults*3)
			t.Run(fmt.Sprintf("%s %d of %d", tc.name, n, total), func(t *testing.T) {
				run(t, &brokenDisk{kind: tc.kind, after: n, once: tc.once})
			})
		}
	}
}

func TestOpen_RefusesADirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	s, err := local.Open(local.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := local.Open(local.Config{Dir: dir}); !errors.Is(err, local.ErrInUse) {
		t.Errorf("got %v, want ErrInUse", err)
	}
	id := s.InstanceID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = local.Open(local.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.InstanceID() != id {
		t.Error("another instance id after a restart")
	}
	if err := s.DropAll(); err != nil || s.InstanceID() != id {
		t.Error("another instance id after DropAll", err)
	}
}

func TestOpen_NamesWhatItCannotDo(t *testing.T) {
	_, err := local.Open(local.Config{Dir: "/dev/null/data"})
	if err == nil || errors.Is(err, local.ErrInUse) {
		t.Errorf("got %v", err)
	}
}

// TestOpen_RebuildsAnotherFormat: with one line in the log.
func TestOpen_RebuildsAnotherFormat(t *testing.T) {
	h := newHouse()
	fs := vfs.NewMem()
	s, err := local.Open(local.Config{Dir: "data", FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.fill(s); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	writeFile(t, fs, "data/format", []byte("chathome local data, format 999\n"))
	var logged bytes.Buffer
	if s, err = local.Open(local.Config{Dir: "data", FS: fs, Log: slog.New(slog.NewTextHandler(&logged, nil))}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if p, err := s.Shard(0).Position(); err != nil || p != (local.Position{}) {
		t.Errorf("position %+v %v", p, err)
	}
	if strings.Count(logged.String(), "\n") != 1 || !strings.Contains(logged.String(), "another format") {
		t.Errorf("logged %q", logged.String())
	}
}

// TestFold_RefusesToGoOnAfterADrop: a fold of an earlier tenure must not write behind the new one's back.
func TestFold_RefusesToGoOnAfterADrop(t *testing.T) {
	s := open(t, vfs.NewMem())
	sh := s.Shard(1)
	var l log
	l.room(roomID(1), "hall")
	begin := func() *local.Fold {
		p, err := sh.Position()
		if err != nil {
			t.Fatal(err)
		}
		f := sh.NewFold(p)
		l.message(roomID(1), "u", fmt.Sprint(l.at()), "text")
		l.apply(t, f)
		return f
	}
	for _, name := range []string{"drop", "drop all"} {
		f := begin()
		drop := sh.Drop
		if name == "drop all" {
			drop = s.DropAll
		}
		if err := drop(); err != nil {
			t.Fatal(err)
		}
		if err := f.Commit(nil); !errors.Is(err, local.ErrStale) {
			t.Errorf("commit after %s: %v", name, err)
		}
		if name == "drop all" {
			if _, err := sh.Position(); !errors.Is(err, local.ErrStale) {
				t.Errorf("position after %s: %v", name, err)
			}
			sh = s.Shard(1)
		}
		if p, err := sh.Position(); err != nil || !p.Empty() {
			t.Errorf("position %+v, %v", p, err)
		}
	}
}

// TestPosition_ShowsAMissingCommit: two folds that both begin at one position, or a position that was made up.
func TestPosition_ShowsAMissingCommit(t *testing.T) {
	for name, second := range map[string]func(first local.Position) local.Position{
		"from a position of before":    func(first local.Position) local.Position { return local.Position{} },
		"from a position beyond":       func(first local.Position) local.Position { first.Next++; return first },
		"from a position of one's own": func(first local.Position) local.Position { return local.Position{Next: first.Next} },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, vfs.NewMem())
			sh := s.Shard(1)
			var l log
			l.room(roomID(1), "hall")
			f := sh.NewFold(local.Position{})
			l.apply(t, f)
			if err := f.Commit(nil); err != nil {
				t.Fatal(err)
			}
			l.message(roomID(1), "u", "1", "text")
			l.message(roomID(1), "u", "2", "text")
			f = sh.NewFold(second(f.Position()))
			l.apply(t, f)
			if err := f.Commit(nil); err != nil {
				t.Fatal(err)
			}
			if p, err := sh.Position(); !errors.Is(err, local.ErrCorrupt) {
				t.Errorf("position %+v, %v; want ErrCorrupt", p, err)
			}
			if s.Fault() != nil {
				t.Errorf("a fault of the store: %v", s.Fault())
			}
			if err := sh.Drop(); err != nil {
				t.Fatal(err)
			}
			f = sh.NewFold(local.Position{})
			l.apply(t, f)
			if err := f.Commit(nil); err != nil {
				t.Fatal(err)
			}
			if page, err := sh.Read(roomID(1), domain.Range{Limit: 10}); err != nil || len(page.Messages) != 2 {
				t.Errorf("%v %v", page, err)
			}
		})
	}
}

func TestFold_ReportsTheDamageOfALog(t *testing.T) {
	s := open(t, vfs.NewMem())
	sh := s.Shard(1)
	f := sh.NewFold(local.Position{})
	at := domain.Offset(0)
	apply := func(want local.Verdict, damaged bool, value []byte) {
		t.Helper()
		var v record.View
		if got := f.Apply(at, value, &v); got != want {
			t.Errorf("offset %d: %v, want %v", at, got, want)
		}
		at++
		if f.Position().Damaged != damaged {
			t.Errorf("offset %d: damaged %v", at-1, !damaged)
		}
	}
	message := func(serial domain.Serial, clientID string) []byte {
		return record.AppendMessage(nil, at, &domain.Message{Room: roomID(1), Serial: serial, User: "u", ClientID: clientID, Text: "t"})
	}
	apply(local.Counted, false, record.AppendChatRoom(nil, at, &domain.ChatRoomInfo{ID: roomID(1), Name: "hall"}))
	apply(local.Counted, false, message(1, "a"))
	apply(local.Takeover, false, record.AppendTakeover(nil, &record.Takeover{Tenure: roomID(9)}))
	apply(local.Rubbish, false, []byte("rubbish"))
	apply(local.Skipped, true, message(1, "b"))
	apply(local.Skipped, true, message(2, "a")) // its client id is there
	apply(local.Ahead, true, message(7, "c"))
	apply(local.Skipped, true, record.AppendChatRoom(nil, at, &domain.ChatRoomInfo{ID: roomID(1), Name: "again"}))
	apply(local.Orphan, true, record.AppendMessage(nil, at, &domain.Message{Room: roomID(2), Serial: 30, User: "u", ClientID: "a", Text: "t"}))
	if err := f.Commit(nil); err != nil {
		t.Fatal(err)
	}
	apply(local.Skipped, true, message(8, "c")) // committed before
	if got := f.Tally(); got[local.Skipped] != 4 || got[local.Ahead] != 1 || got[local.Orphan] != 1 || got[local.Rubbish] != 1 {
		t.Errorf("tally %v", got)
	}
	orphan, ok, err := sh.Room(roomID(2))
	if err != nil || !ok || orphan.Info.Name != "" || orphan.Last != 30 {
		t.Errorf("orphan %+v %v %v", orphan, ok, err)
	}
	if oldest, err := sh.Oldest(roomID(2)); err != nil || oldest != 30 {
		t.Errorf("oldest %d %v", oldest, err)
	}
	if got, err := sh.Position(); err != nil || !got.Damaged {
		t.Errorf("position %+v %v", got, err)
	}
}
