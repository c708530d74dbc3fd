package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/chathome/chathome/domain"
)

func TestSipHash_EqualsThePublishedVectors(t *testing.T) {
	var key hashKey
	for i := range key {
		key[i] = byte(i)
	}
	input := make([]byte, 15)
	for i := range input {
		input[i] = byte(i)
	}
	// From the paper's appendix and its reference code.
	for length, want := range map[int]uint64{0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5} {
		if got := sipHash(&key, input[:length]); got != want {
			t.Errorf("length %d: %#x, want %#x", length, got, want)
		}
	}
}

// TestIndex_BucketsStayBounded: the records of a level, evenly spread, make 512 a bucket, however long the log is; and
// the number of levels that a lookup reads grows by one while the log grows sixteenfold.
func TestIndex_BucketsStayBounded(t *testing.T) {
	for _, tc := range []struct {
		at   domain.Offset
		want byte
	}{
		{-1, 0}, {0, 0}, {1<<18 - 1, 0}, {1 << 18, 1}, {1<<22 - 1, 1}, {1 << 22, 2}, {1<<26 - 1, 2}, {1 << 26, 3},
		{1 << 30, 4}, {1 << 34, 5}, {1 << 62, 5},
	} {
		if got := levelOf(tc.at); got != tc.want {
			t.Errorf("level of %d: %d, want %d", tc.at, got, tc.want)
		}
	}
	for level := range byte(maxLevel + 1) {
		buckets := int64(bucketOf(level, 1<<64-1).number) + 1
		records := int64(1) << (level0Records + levelFactor*int(level))
		if records/buckets > 512 || bucketOf(level, 0).number != 0 {
			t.Errorf("level %d: %d records in %d buckets", level, records, buckets)
		}
	}
}

func TestIndexEntryLen_IsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		serial := domain.Serial(rapid.Int64Min(1).Draw(t, "serial"))
		if got := len(appendIndexEntry(nil, 1, serial)); got != indexEntryLen(serial) {
			t.Fatalf("serial %d: %d bytes, %d said", serial, got, indexEntryLen(serial))
		}
	})
}

// TestMerger_IsAssociative: Pebble merges operands in any grouping, from either end.
func TestMerger_IsAssociative(t *testing.T) {
	merge := func(t *rapid.T, key []byte, operands [][]byte) []byte {
		// A random tree over the operands, as compactions make them.
		for len(operands) > 1 {
			from := rapid.IntRange(0, len(operands)-2).Draw(t, "from")
			to := rapid.IntRange(from+2, len(operands)).Draw(t, "to")
			group := operands[from:to]
			newest := rapid.Bool().Draw(t, "from the newest")
			start := group[0]
			if newest {
				start = group[len(group)-1]
			}
			m, err := merger.Merge(key, start)
			if err != nil {
				t.Fatal(err)
			}
			for i := 1; i < len(group); i++ {
				if newest {
					err = m.MergeOlder(group[len(group)-1-i])
				} else {
					err = m.MergeNewer(group[i])
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			value, _, err := m.Finish(false)
			if err != nil {
				t.Fatal(err)
			}
			operands = append(append(append([][]byte{}, operands[:from]...), bytes.Clone(value)), operands[to:]...)
		}
		return operands[0]
	}
	rapid.Check(t, func(t *rapid.T) {
		lists := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 1, 12).Draw(t, "operands")
		if got := merge(t, appendPageKey(nil, 1, &uuid.UUID{}, 0), lists); !bytes.Equal(got, bytes.Join(lists, nil)) {
			t.Fatalf("got %x", got)
		}
		// Links of a chain, one of them missing or not.
		n := rapid.IntRange(1, 12).Draw(t, "links")
		missing := rapid.IntRange(-1, n-1).Draw(t, "missing")
		var links [][]byte
		var want Position
		for i := range n {
			l := link{Position: Position{Next: domain.Offset(i+1) * 10, Hash: uint64(i), build: 7, Kinds: 1}, from: domain.Offset(i) * 10}
			if i != missing {
				links = append(links, l.append(nil))
				want = l.Position
			}
		}
		if len(links) == 0 {
			return
		}
		got, err := readPosition(merge(t, appendShardKey(nil, 1, tableChain), links))
		gap := missing >= 0 && missing < n-1 // a missing end is only an earlier state
		if gap != errors.Is(err, ErrCorrupt) || !gap && got != want {
			t.Fatalf("%d links without %d: %+v, %v", n, missing, got, err)
		}
	})
}

// TestShard_ShowsAMergeAppliedTwice: and a page that lost its end, or all.
func TestShard_ShowsDamagedPages(t *testing.T) {
	room := uuid.UUID{1}
	entry := func(serial domain.Serial) []byte {
		return appendEntry(nil, serial, 5, []byte("u"), []byte("c"), []byte("t"))
	}
	for name, damage := range map[string]func(db *database, key []byte) error{
		"merged twice":  func(db *database, key []byte) error { return db.Merge(key, entry(3), nil) },
		"end lost":      func(db *database, key []byte) error { return db.Set(key, append(entry(1), entry(2)...), nil) },
		"middle lost":   func(db *database, key []byte) error { return db.Set(key, append(entry(1), entry(3)...), nil) },
		"cut":           func(db *database, key []byte) error { return db.Set(key, entry(1)[:4], nil) },
		"page lost":     func(db *database, key []byte) error { return db.Delete(key, nil) },
		"foreign bytes": func(db *database, key []byte) error { return db.Set(key, []byte{0, 0x80}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(Config{Dir: InMemory, FS: vfs.NewMem()})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			sh := s.Shard(1)
			db, release, err := s.use(0)
			if err != nil {
				t.Fatal(err)
			}
			state := roomState{first: 1, last: 3}
			key := appendPageKey(nil, 1, &room, 0)
			err = errors.Join(db.Set(appendRoomKey(nil, 1, tableRoom, &room), state.append(nil), nil),
				db.Merge(key, entry(1), nil), db.Merge(key, append(entry(2), entry(3)...), nil))
			if err != nil {
				t.Fatal(err)
			}
			if page, err := sh.Read(room, domain.Range{Limit: 3}); err != nil || len(page.Messages) != 3 {
				t.Fatalf("%v %v", page, err)
			}
			if err := damage(db, key); err != nil {
				t.Fatal(err)
			}
			release()
			for _, r := range []domain.Range{{Limit: 10}, {Limit: 10, FromEnd: true}, {Limit: 10, After: 1}} {
				if page, err := sh.Read(room, r); !errors.Is(err, ErrCorrupt) {
					t.Errorf("read %+v: %v, %v; want ErrCorrupt", r, page, err)
				}
			}
			if s.Fault() != nil {
				t.Errorf("a fault of the whole store: %v", s.Fault())
			}
		})
	}
}

// FuzzRows: rows of any bytes are ErrCorrupt or make sense, and never panic.
func FuzzRows(f *testing.F) {
	f.Add(appendEntry(nil, 1, -5, []byte("u"), []byte("c"), []byte("t")))
	f.Add(appendIndexEntry(nil, 0, 300))
	f.Add((&roomState{first: 1, last: 2, lastAt: 3}).append(nil))
	f.Add((&link{Position: Position{Next: 1, build: 1}}).append(nil))
	f.Add(appendOwner(nil, &OwnerEntry{Instance: domain.Instance{ID: "i", URL: "u"}}))
	f.Fuzz(func(t *testing.T, row []byte) {
		check := func(err error) {
			if err != nil && !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
		}
		_, _, err := findInPage(row, uuid.UUID{}, 70, []byte("u"), []byte("c"))
		check(err)
		r := readPage(row, 3)
		var again []byte
		for {
			var e entry
			ok, err := r.next(&e)
			check(err)
			if !ok {
				break
			}
			if e.serial < 193 || e.serial > 256 {
				t.Fatal(e.serial)
			}
			again = appendEntry(again, e.serial, e.at, e.user.of(row), e.clientID.of(row), e.text.of(row))
		}
		if len(again) > r.pos {
			t.Fatalf("%x read from %x", again, row)
		}
		check(eachMatch(row, binary.LittleEndian.Uint32(append(bytes.Clone(row), 0, 0, 0, 0)), func(s domain.Serial) bool {
			if s < 1 {
				t.Fatal(s)
			}
			return true
		}))
		_, err = readRoomState(row)
		check(err)
		_, err = readRoomName(uuid.UUID{}, 1, row)
		check(err)
		_, err = readListRow(row)
		check(err)
		_, err = readOwner(appendOwnerKey(nil, 1), row)
		check(err)
		_, err = readPosition(row)
		check(err)
	})
}

// TestListMerger_DoesNotCopyPerOperand: a page or bucket of n operands is read in O(n).
func TestListMerger_DoesNotCopyPerOperand(t *testing.T) {
	var m pebble.ValueMerger = &listMerger{}
	operand := make([]byte, 100)
	if n := testing.AllocsPerRun(1, func() {
		for range 1000 {
			if err := m.MergeOlder(operand); err != nil {
				t.Fatal(err)
			}
		}
	}); n > 20 {
		t.Errorf("%v allocations for 1000 operands", n)
	}
}
