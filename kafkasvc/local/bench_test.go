package local_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/kafkasvc/local"
	"github.com/chathome/chathome/kafkasvc/record"
)

// chunk is what a loader folds before it commits.
const chunk = 12 << 20

// loader makes the log of a shard with many rooms as it goes, and folds it.
type loader struct {
	b      testing.TB
	fold   *local.Fold
	rooms  []uuid.UUID
	serial []domain.Serial
	rnd    *rand.Rand
	text   string
	off    domain.Offset
	values []byte
	ends   []int
}

func newLoader(b testing.TB, s *local.Store, rooms int) *loader {
	l := &loader{b: b, fold: s.Shard(1).NewFold(local.Position{}), rnd: rand.New(rand.NewPCG(1, 2)), text: strings.Repeat("chat ", 26)}
	var v record.View
	for i := range rooms {
		var id uuid.UUID
		binary.BigEndian.PutUint64(id[:], l.rnd.Uint64())
		binary.BigEndian.PutUint64(id[8:], uint64(i))
		l.rooms = append(l.rooms, id)
		l.fold.Apply(l.off, record.AppendChatRoom(nil, l.off, &domain.ChatRoomInfo{ID: id, Name: "a room"}), &v)
		l.off++
	}
	l.serial = make([]domain.Serial, rooms)
	l.commit()
	return l
}

func (l *loader) commit() {
	if err := l.fold.Commit(nil); err != nil {
		l.b.Fatal(err)
	}
}

func clientID(room int, serial domain.Serial) string {
	return fmt.Sprintf("client-%06d-%08d", room, serial)
}

// generate makes the next n records of about 200 bytes.
func (l *loader) generate(n int) {
	l.values, l.ends = l.values[:0], l.ends[:0]
	for i := range n {
		r := l.rnd.IntN(len(l.rooms))
		l.serial[r]++
		m := domain.Message{Room: l.rooms[r], Serial: l.serial[r], User: "alice", ClientID: clientID(r, l.serial[r]),
			Text: l.text, SentAt: domain.Millis(1_700_000_000_000 + l.off)}
		l.values = record.AppendMessage(l.values, l.off+domain.Offset(i), &m)
		l.ends = append(l.ends, len(l.values))
	}
}

// load folds what was generated.
func (l *loader) load() {
	var v record.View
	from := 0
	for _, end := range l.ends {
		if got := l.fold.Apply(l.off, l.values[from:end], &v); got != local.Counted {
			l.b.Fatal(got, l.fold.Err())
		}
		from = end
		l.off++
		if l.fold.Bytes() > chunk {
			if err := l.fold.CommitBeside(nil); err != nil {
				l.b.Fatal(err)
			}
		}
	}
}

func benchmarkFold(b *testing.B, rooms int) {
	s, err := local.Open(local.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	l := newLoader(b, s, rooms)
	defer s.Shard(1).Loading()()
	b.ReportAllocs()
	b.ResetTimer()
	var work time.Duration
	for left := b.N; left > 0; left -= len(l.ends) {
		b.StopTimer()
		l.generate(min(left, 200_000))
		b.StartTimer()
		before := cpu()
		l.load()
		work += cpu() - before
	}
	before := cpu()
	l.commit()
	work += cpu() - before
	b.StopTimer()
	b.ReportMetric(float64(work.Nanoseconds())/float64(b.N), "cpu-ns/msg")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	b.ReportMetric(float64(len(l.values))/float64(len(l.ends)), "B/msg")
	b.ReportMetric(rss(), "peak-MB")
}

// BenchmarkFold loads a shard from an empty store: -benchtime 2000000x for 2 million messages.
func BenchmarkFold(b *testing.B) {
	for _, rooms := range []int{1, 50, 5_000, 100_000} {
		b.Run(fmt.Sprintf("rooms=%d", rooms), func(b *testing.B) { benchmarkFold(b, rooms) })
	}
}

// BenchmarkFoldGroupCommits is the open shard: commits of a few messages.
func BenchmarkFoldGroupCommits(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			s, err := local.Open(local.Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			l := newLoader(b, s, 50)
			l.generate(200_000)
			b.ReportAllocs()
			b.ResetTimer()
			var v record.View
			i, from := 0, 0
			for b.Loop() {
				for range n {
					if i == len(l.ends) {
						b.StopTimer()
						i, from = 0, 0
						l.generate(200_000)
						b.StartTimer()
					}
					if got := l.fold.Apply(l.off, l.values[from:l.ends[i]], &v); got != local.Counted {
						b.Fatal(got)
					}
					from = l.ends[i]
					i++
					l.off++
				}
				l.commit()
			}
		})
	}
}

// loaded is a store with one room of n messages, closed and opened again.
func loaded(b *testing.B, n int) (*local.Shard, *loader) {
	b.Helper()
	dir := b.TempDir()
	s, err := local.Open(local.Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	l := newLoader(b, s, 1)
	for left := n; left > 0; left -= len(l.ends) {
		l.generate(min(left, 100_000))
		l.load()
	}
	l.commit()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if s, err = local.Open(local.Config{Dir: dir}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s.Shard(1), l
}

var sizes = []int{1_000, 1_000_000}

// BenchmarkReadLast50 and BenchmarkReadMiddle50: what a page costs must not depend on the length of the history.
func BenchmarkReadLast50(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			sh, l := loaded(b, n)
			b.ReportAllocs()
			for b.Loop() {
				page, err := sh.Read(l.rooms[0], domain.Range{Limit: 50, FromEnd: true})
				if err != nil || len(page.Messages) != 50 {
					b.Fatal(len(page.Messages), err)
				}
			}
		})
	}
}

func BenchmarkReadMiddle50(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			sh, l := loaded(b, n)
			b.ReportAllocs()
			for b.Loop() {
				page, err := sh.Read(l.rooms[0], domain.Range{After: domain.Serial(l.rnd.IntN(n - 50)), Limit: 50})
				if err != nil || len(page.Messages) != 50 {
					b.Fatal(len(page.Messages), err)
				}
			}
		})
	}
}

// BenchmarkFind looks up ids that are there (hit) and ids that are not, as with every new message (miss).
func BenchmarkFind(b *testing.B) {
	for _, n := range sizes {
		sh, l := loaded(b, n)
		for _, kind := range []string{"hit", "miss"} {
			b.Run(fmt.Sprintf("messages=%d/%s", n, kind), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					serial := domain.Serial(1 + l.rnd.IntN(n))
					if kind == "miss" {
						serial += 10_000_000
					}
					_, ok, err := sh.Find(l.rooms[0], "alice", clientID(0, serial))
					if err != nil || ok != (kind == "hit") {
						b.Fatal(ok, err)
					}
				}
			})
		}
	}
}
