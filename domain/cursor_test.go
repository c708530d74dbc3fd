package domain

import (
	"errors"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestCursor_ComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Cursor{
			Home: uuid.New(), Room: uuid.New(),
			Serial: Serial(rapid.Int64Min(0).Draw(t, "serial")), Hash: rapid.Uint32().Draw(t, "hash"),
		}
		if got, err := ParseCursor(c.String()); err != nil || got != c {
			t.Fatalf("%+v, %v", got, err)
		}
		l := ListCursor{Home: c.Home, Serial: c.Serial, Hash: c.Hash}
		if got, err := ParseListCursor(l.String()); err != nil || got != l {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

func TestCursor_RefusesWhatItDidNotMake(t *testing.T) {
	good := Cursor{Home: uuid.New(), Room: uuid.New(), Serial: 7, Hash: 9}.String()
	list := ListCursor{Home: uuid.New(), Serial: 7, Hash: 9}.String()
	bad := []string{"", "0", "-1", "abc", "99999999999999999999", list, good + "=", good[:len(good)-1], good + "A", " " + good}
	for i := range good { // one flipped character
		b := []byte(good)
		if b[i] ^= 1; b[i] == good[i] {
			continue
		}
		bad = append(bad, string(b))
	}
	for _, s := range bad {
		var e *BadCursorError
		if c, err := ParseCursor(s); !errors.As(err, &e) {
			t.Errorf("%q was taken as %+v", s, c)
		}
	}
	if _, err := ParseListCursor(good); err == nil {
		t.Error("a room's cursor was taken for one of the list")
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add(Cursor{Home: uuid.UUID{1}, Room: uuid.UUID{2}, Serial: 3, Hash: 4}.String())
	f.Add(ListCursor{Home: uuid.UUID{1}, Serial: 3, Hash: 4}.String())
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := ParseCursor(s); err == nil && c.String() != s {
			t.Fatalf("%q and %q are one cursor", s, c)
		}
		if c, err := ParseListCursor(s); err == nil && c.String() != s {
			t.Fatalf("%q and %q are one cursor", s, c)
		}
	})
}

func TestMessageHash_TellsEveryField(t *testing.T) {
	m := Message{Room: uuid.UUID{1}, Serial: 1, User: "ab", ClientID: "c", Text: "x", SentAt: 5}
	others := []Message{m, m, m, m, m, m, m}
	others[0].Room[0]++
	others[1].Serial++
	others[2].User, others[2].ClientID = "a", "bc"
	others[3].ClientID, others[3].Text = "cx", ""
	others[4].Text += "y"
	others[5].SentAt++
	others[6].User = "aB"
	for i, o := range others {
		if o.Hash() == m.Hash() {
			t.Errorf("variant %d has the same hash", i)
		}
	}
	if n := testing.AllocsPerRun(100, func() { m.Hash() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
