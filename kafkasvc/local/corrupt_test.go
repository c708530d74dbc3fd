package local_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

// house is two shards' logs and a directory, and what a store must show of them.
type house struct {
	logs  [2]log
	list  []domain.ListedRoom
	folds map[foldKey]map[uuid.UUID]*modelRoom
}

type foldKey struct {
	shard int
	next  domain.Offset
}

func newHouse() *house {
	h := &house{folds: map[foldKey]map[uuid.UUID]*modelRoom{}}
	rnd := rand.New(rand.NewPCG(3, 4))
	for s := range h.logs {
		l := &h.logs[s]
		for i := range 4 {
			l.room(roomID(i), fmt.Sprint("room ", i))
		}
		for i := range 500 {
			text := make([]byte, 20+rnd.IntN(60))
			for k := range text {
				text[k] = byte('a' + rnd.IntN(26)) // does not compress: files have some size
			}
			l.message(roomID(rnd.IntN(4)), "user", fmt.Sprint("id", i), string(text))
		}
	}
	for i := range 40 {
		h.list = append(h.list, domain.ListedRoom{Serial: domain.Serial(i + 1),
			Info: domain.ChatRoomInfo{ID: roomID(i), Name: fmt.Sprint("listed ", i), Shard: 1}})
	}
	return h
}

// fill loads the store in many small commits, as far as it is not there yet.
func (h *house) fill(s *local.Store) error {
	var v record.View
	for i := range h.logs {
		l := &h.logs[i]
		sh := s.Shard(domain.ShardID(i))
		p, err := sh.Position()
		if err != nil {
			return err
		}
		f := sh.NewFold(p)
		for off := p.Next; off < l.at(); off++ {
			f.Apply(off, l.values[off], &v)
			if off%40 == 0 || off == l.at()-1 {
				if err := f.Commit(nil); err != nil {
					return err
				}
			}
		}
	}
	d := s.Directory()
	from, err := d.Offset()
	if err != nil {
		return err
	}
	for i := from; int(i) < len(h.list); i++ {
		e := d.Edit()
		e.PutRoom(h.list[i])
		e.SetOffset(i + 1)
		if err := e.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// wrong answers what the store shows that is not so. Errors of the store are not wrong; the first is answered too.
func (h *house) wrong(s *local.Store) (wrong string, failed error) {
	fail := func(err error) bool {
		if err != nil && failed == nil {
			failed = err
		}
		return err != nil
	}
	for i := range h.logs {
		sh := s.Shard(domain.ShardID(i))
		p, err := sh.Position()
		if fail(err) {
			continue
		}
		if p.Next > h.logs[i].at() || p.Next > 0 && p.Hash != record.Hash(h.logs[i].values[p.Next-1]) {
			return fmt.Sprintf("shard %d: position %+v", i, p), failed
		}
		want := h.fold(i, p.Next)
		count := 0
		err = sh.EachRoom(func(info domain.ChatRoomInfo) bool {
			count++
			if r := want[info.ID]; r == nil || r.info.Name != info.Name {
				wrong = fmt.Sprintf("shard %d: room %v", i, info)
			}
			return true
		})
		if !fail(err) && count != len(want) {
			wrong = fmt.Sprintf("shard %d: %d rooms of %d", i, count, len(want))
		}
		for id, r := range want {
			room, ok, err := sh.Room(id)
			if !fail(err) && (!ok || room.Info.Name != r.info.Name || room.Last != r.last() || room.LastAt != r.lastAt) {
				wrong = fmt.Sprintf("shard %d: room %v, last %d of %d", i, ok, room.Last, r.last())
			}
			page, err := sh.Read(id, domain.Range{Limit: 5000})
			if !fail(err) && !slices.Equal(page.Messages, r.messages) {
				wrong = fmt.Sprintf("shard %d: %d messages of %d", i, len(page.Messages), len(r.messages))
			}
			for k := 0; k < len(r.messages); k += 13 { // each is slow under the race detector
				m, ok, err := sh.Find(id, r.messages[k].User, r.messages[k].ClientID)
				if !fail(err) && (!ok || m != r.messages[k]) {
					wrong = fmt.Sprintf("shard %d: message %d not found by its id", i, r.messages[k].Serial)
				}
			}
		}
	}
	d := s.Directory()
	if next, err := d.Offset(); !fail(err) {
		rooms, err := d.Rooms(0, 1000)
		if !fail(err) && !slices.Equal(rooms, h.list[:next]) {
			wrong = fmt.Sprintf("room list of %d at %d", len(rooms), next)
		}
	}
	return wrong, failed
}

func (h *house) fold(shard int, next domain.Offset) map[uuid.UUID]*modelRoom {
	key := foldKey{shard, next}
	if h.folds[key] == nil {
		m := &model{rooms: map[uuid.UUID]*modelRoom{}}
		for off := range next {
			m.apply(off, h.logs[shard].values[off])
		}
		h.folds[key] = m.rooms
	}
	return h.folds[key]
}

// copyFS copies the data directory, so that each fault gets files of its own.
func copyFS(t testing.TB, from vfs.FS) *vfs.MemFS {
	t.Helper()
	to := vfs.NewMem()
	if ok, err := vfs.Clone(from, to, "data", "data"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	return to
}

// files lists the files below dir, without locks.
func files(t testing.TB, fs vfs.FS, dir string) []string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	var found []string
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		switch {
		case err != nil:
			t.Fatal(err)
		case info.IsDir():
			found = append(found, files(t, fs, path)...)
		case name != "LOCK":
			found = append(found, path)
		}
	}
	return found
}

func readFile(t testing.TB, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.Write(slices.Clone(b)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// survive opens a damaged copy: nothing wrong may show, and once what failed was dropped, everything must be there
// again. It answers how the damage showed.
func (h *house) survive(t *testing.T, fs vfs.FS) (outcome string) {
	var logged strings.Builder
	s, err := local.Open(local.Config{Dir: "data", FS: fs, MemTableBytes: 16 << 10, Log: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Errorf("open: %v", err)
		return "no store"
	}
	defer s.Close()
	wrong, failed := h.wrong(s)
	if wrong != "" {
		t.Errorf("wrong answer: %s (%v)", wrong, failed)
	}
	outcome = "as it was"
	switch {
	case strings.Contains(logged.String(), "built from the log again"):
		outcome = "rebuilt"
	case s.Fault() != nil:
		outcome = "fault"
	case failed != nil:
		outcome = "shard corrupt"
	default:
		for i := range h.logs {
			if p, err := s.Shard(domain.ShardID(i)).Position(); err == nil && p.Next < h.logs[i].at() {
				outcome = "older"
			}
		}
	}
	if failed != nil && !errors.Is(failed, local.ErrCorrupt) && !errors.Is(failed, local.ErrFault) {
		t.Errorf("%s: %v", outcome, failed)
	}
	// What the owner does then.
	for range 3 {
		err = h.fill(s)
		if err == nil {
			wrong, err = h.wrong(s)
		}
		if err == nil {
			break
		}
		if dropErr := s.DropAll(); dropErr != nil {
			t.Errorf("drop: %v", dropErr)
		}
	}
	if err != nil || wrong != "" {
		t.Errorf("after a rebuild: %v %s", err, wrong)
	}
	for i := range h.logs {
		if p, err := s.Shard(domain.ShardID(i)).Position(); err != nil || p.Next != h.logs[i].at() {
			t.Errorf("after a rebuild: %v %v", p, err)
		}
	}
	return outcome
}

// faults is how much TestStore_SurvivesDamagedFiles and TestStore_SurvivesABrokenDisk try. With 2 they take seconds;
// use 100 to look for what is rare.
var faults = flag.Int("faults", 2, "positions in each file that are damaged, and a third of those at which a disk breaks")

// TestStore_SurvivesDamagedFiles flips, clears, cuts, empties and deletes every file that a store consists of: one that
// was closed, and one whose process was killed, where much is in the write-ahead log.
func TestStore_SurvivesDamagedFiles(t *testing.T) {
	h := newHouse()
	base := vfs.NewCrashableMem()
	s, err := local.Open(local.Config{Dir: "data", FS: base, MemTableBytes: 32 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.fill(s); err != nil {
		t.Fatal(err)
	}
	killed := base.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("closed", func(t *testing.T) { h.damage(t, base) })
	t.Run("killed", func(t *testing.T) { h.damage(t, killed) })
}

func (h *house) damage(t *testing.T, base *vfs.MemFS) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, path := range files(t, base, "data") {
		content := readFile(t, base, path)
		t.Run(strings.TrimPrefix(path, "data/"), func(t *testing.T) {
			outcomes := map[string]int{}
			try := func(what string, damage func(fs vfs.FS)) {
				t.Run(what, func(t *testing.T) {
					fs := copyFS(t, base)
					damage(fs)
					outcomes[h.survive(t, fs)]++
				})
			}
			try("deleted", func(fs vfs.FS) { _ = fs.Remove(path) })
			try("empty", func(fs vfs.FS) { writeFile(t, fs, path, nil) })
			for range min(*faults, len(content)) {
				at := rnd.IntN(len(content))
				bit := byte(1) << rnd.IntN(8)
				try(fmt.Sprintf("bit flipped at %d", at), func(fs vfs.FS) {
					b := slices.Clone(content)
					b[at] ^= bit
					writeFile(t, fs, path, b)
				})
				try(fmt.Sprintf("cut at %d", at), func(fs vfs.FS) { writeFile(t, fs, path, content[:at]) })
				try(fmt.Sprintf("zeroes from %d", at), func(fs vfs.FS) {
					b := slices.Clone(content)
					clear(b[at:min(at+512, len(b))])
					writeFile(t, fs, path, b)
				})
			}
			t.Logf("%d bytes: %v", len(content), outcomes)
		})
	}
}
