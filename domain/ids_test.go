package domain

import (
	"testing"

	"github.com/google/uuid"
)

// The vectors are those of Kafka's own UtilsTest.testMurmur2.
func TestMurmur2_EqualsKafkas(t *testing.T) {
	for s, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(s))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", s, got, want)
		}
	}
}

func TestShardOf_HashesTheUUIDAsText(t *testing.T) {
	for range 100 {
		id := uuid.New()
		want := ShardID((murmur2([]byte(id.String())) & 0x7fffffff) % 12)
		if got := ShardOf(id, 12); got != want {
			t.Fatalf("ShardOf(%s) = %d, want %d", id, got, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { ShardOf(uuid.UUID{1}, 12) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseRoomID_TakesOneSpellingOnly(t *testing.T) {
	good := "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	if id, ok := ParseRoomID(good); !ok || id.String() != good {
		t.Fatalf("ParseRoomID(%q) = %v, %v", good, id, ok)
	}
	for _, s := range []string{
		"", " ", good + " ", " " + good, "6BA7B810-9dad-11d1-80b4-00c04fd430c8",
		"{6ba7b810-9dad-11d1-80b4-00c04fd430c8}", "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"6ba7b8109dad11d180b400c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430cg",
		"6ba7b810+9dad-11d1-80b4-00c04fd430c8", "6ba7b810-9dad-11d1-80b4-00c04fd430c\x00",
	} {
		if _, ok := ParseRoomID(s); ok {
			t.Errorf("ParseRoomID(%q) was taken", s)
		}
	}
}

func FuzzParseRoomID(f *testing.F) {
	f.Add("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	f.Fuzz(func(t *testing.T, s string) {
		if id, ok := ParseRoomID(s); ok && id.String() != s {
			t.Fatalf("%q was taken as %s", s, id)
		}
	})
}
