package domain

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func faults(err error) string {
	if err == nil {
		return ""
	}
	var in *InvalidInputError
	if !errors.As(err, &in) {
		return err.Error()
	}
	var list []string
	for _, f := range in.Fields {
		list = append(list, f.Field+" "+f.Rule)
	}
	return strings.Join(list, ", ")
}

func TestDraftValidate(t *testing.T) {
	family := "👨‍👩‍👧‍👦"
	full := strings.Repeat("x", MaxTextBytes)
	for _, c := range []struct{ name, user, clientID, text, want string }{
		{"plain", "alice", "1", "hi", ""},
		{"text with blanks around", "alice", "1", " a ", ""},
		{"tab and newline", "alice", "1", "a\tb\nc", ""},
		{"text at the limit", "alice", "1", full, ""},
		{"text over the limit", "alice", "1", full + "x", "text MAX_BYTES"},
		{"emoji count as bytes", "alice", "1", strings.Repeat(family, MaxTextBytes/len(family)), ""},
		{"emoji over the limit", "alice", "1", strings.Repeat(family, MaxTextBytes/len(family)+1), "text MAX_BYTES"},
		{"empty", "alice", "1", "", "text REQUIRED"},
		{"blank", "alice", "1", " ", "text BLANK"},
		{"newline only", "alice", "1", "\n", "text BLANK"},
		{"tab only", "alice", "1", "\t", "text BLANK"},
		{"no-break space only", "alice", "1", "\u00a0", "text BLANK"},
		{"carriage return", "alice", "1", "a\r\nb", "text CONTROL"},
		{"nul", "alice", "1", "a\x00b", "text CONTROL"},
		{"escape", "alice", "1", "a\x1bb", "text CONTROL"},
		{"not UTF-8", "alice", "1", "a\xff", "text UTF8"},
		{"a surrogate in UTF-8", "alice", "1", "a\xed\xa0\x80", "text UTF8"},
		{"user at the limit", strings.Repeat("u", MaxUserBytes), "1", "hi", ""},
		{"user over the limit", strings.Repeat("u", MaxUserBytes+1), "1", "hi", "user MAX_BYTES"},
		{"user with a blank", "al ice", "1", "hi", "user PRINTABLE_ASCII"},
		{"user beyond ASCII", "älice", "1", "hi", "user PRINTABLE_ASCII"},
		{"client id at the limit", "alice", strings.Repeat("1", MaxClientIDBytes), "hi", ""},
		{"client id over the limit", "alice", strings.Repeat("1", MaxClientIDBytes+1), "hi", "clientId MAX_BYTES"},
		{"client id with a newline", "alice", "1\n", "hi", "clientId PRINTABLE_ASCII"},
		{"client id with DEL", "alice", "1\x7f", "hi", "clientId PRINTABLE_ASCII"},
		{"all faults at once", "", "", "", "user REQUIRED, clientId REQUIRED, text REQUIRED"},
	} {
		if got := faults(Draft{c.user, c.clientID, c.text}.Validate()); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestDraftValidate_TellsTheMeasureAndNotTheText(t *testing.T) {
	secret := strings.Repeat("s", MaxTextBytes+5)
	err := Draft{"alice", "1", secret}.Validate()
	var in *InvalidInputError
	if !errors.As(err, &in) || in.Fields[0] != (InvalidField{"text", RuleMaxBytes, MaxTextBytes, MaxTextBytes + 5}) {
		t.Errorf("%+v", err)
	}
	if strings.Contains(err.Error(), "sss") {
		t.Error("the error tells the text")
	}
}

func TestValidateRoomName(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"kitchen", ""},
		{"Küche 🍳", ""},
		{strings.Repeat("🍳", MaxRoomNameRunes), ""},
		{strings.Repeat("🍳", MaxRoomNameRunes+1), "name MAX_CHARACTERS"},
		{"", "name REQUIRED"},
		{"  ", "name BLANK"},
		{"a\nb", "name CONTROL"},
		{"a\u0085b", "name CONTROL"},
		{"a\u2028b", "name CONTROL"},
		{"a\u202eb", "name BIDI_OVERRIDE"},
		{"a\u2066b", "name BIDI_OVERRIDE"},
		{"a\xff", "name UTF8"},
	} {
		if got := faults(ValidateRoomName(c.name)); got != c.want {
			t.Errorf("%q: %q, want %q", c.name, got, c.want)
		}
	}
}

// What passes can be stored and shown; what does not says a rule.
func FuzzDraftValidate(f *testing.F) {
	f.Add("alice", "1", "hi")
	f.Add("", "\n", "\u00a0")
	f.Fuzz(func(t *testing.T, user, clientID, text string) {
		err := Draft{user, clientID, text}.Validate()
		if err == nil {
			if !utf8.ValidString(text) || len(text) > MaxTextBytes || strings.TrimSpace(text) == "" ||
				len(user) == 0 || len(user) > MaxUserBytes || len(clientID) == 0 || len(clientID) > MaxClientIDBytes {
				t.Fatalf("%q %q %q passed", user, clientID, text)
			}
			return
		}
		var in *InvalidInputError
		if !errors.As(err, &in) || len(in.Fields) == 0 {
			t.Fatalf("%v", err)
		}
	})
}

// A name that passes can be shown on one line, and changes neither direction nor anything beside it.
func FuzzValidateRoomName(f *testing.F) {
	for _, name := range []string{"kitchen", "", " ", "a\nb", "a\u202eb", "a\xff", strings.Repeat("🍳", MaxRoomNameRunes)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		err := ValidateRoomName(name)
		if err == nil {
			if n := utf8.RuneCountInString(name); n == 0 || n > MaxRoomNameRunes || !utf8.ValidString(name) || strings.TrimSpace(name) == "" ||
				strings.ContainsFunc(name, func(r rune) bool {
					return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) && r != '\u200e' && r != '\u200f' && r != '\u061c'
				}) {
				t.Fatalf("%q passed", name)
			}
			return
		}
		var in *InvalidInputError
		if !errors.As(err, &in) || len(in.Fields) == 0 {
			t.Fatalf("%v", err)
		}
	})
}
