package jsonvalue

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/chathome/chathome/graph"
)

func read(text string) (any, error) {
	r := NewReader([]byte(text))
	v, err := r.Value()
	if err == nil && !r.End() {
		err = r.fault()
	}
	return v, err
}

func TestReader_SaysWhereATextIsNotJSON(t *testing.T) {
	tests := []struct {
		text   string
		offset int
		want   string // in the error
	}{
		{``, 0, "ends too early"},
		{` `, 1, "ends too early"},
		{`{`, 1, "ends too early"},
		{`{"a`, 3, "ends too early"},
		{`{"a":`, 5, "ends too early"},
		{`{"a":1`, 6, "ends too early"},
		{`[1,`, 3, "ends too early"},
		{`"\`, 2, "ends too early"},
		{`"\u12`, 5, "ends too early"},
		{`tru`, 3, "ends too early"},
		{`-`, 1, "ends too early"},
		{`1.`, 2, "ends too early"},
		{`1e+`, 3, "ends too early"},
		{`?`, 0, "byte 1"},
		{`{1:2}`, 1, "byte 2"},
		{`{"a" 1}`, 5, "byte 6"},
		{`{"a":1,}`, 7, "byte 8"},
		{`{"a":1;`, 6, "byte 7"},
		{`[1 2]`, 3, "byte 4"},
		{`[1,]`, 3, "byte 4"},
		{"\"a\nb\"", 2, "byte 3"},
		{"\"\\n\nb\"", 3, "byte 4"},
		{`"\x"`, 2, "byte 3"},
		{`"\u12g4"`, 5, "byte 6"},
		{`"\ud800\u12g4"`, 11, "byte 12"},
		{`trUe`, 2, "byte 3"},
		{`01`, 1, "byte 2"},
		{`+1`, 0, "byte 1"},
		{`-a`, 1, "byte 2"},
		{`.5`, 0, "byte 1"},
		{`1.e5`, 2, "byte 3"},
		{"\x00", 0, "byte 1"},
		{"1\x00", 1, "byte 2"},
		{strings.Repeat("[", MaxDepth+1), MaxDepth, "levels"},
		{strings.Repeat(`{"a":`, MaxDepth) + `[]`, MaxDepth * 5, "levels"},
	}
	for _, tt := range tests {
		_, err := read(tt.text)
		var fault *Error
		if !errors.As(err, &fault) || fault.Offset != tt.offset || !strings.Contains(fault.Error(), tt.want) {
			t.Errorf("%q: %v, want byte %d: %s", tt.text, err, tt.offset, tt.want)
		}
	}
}

func TestReader_TakesTheDeepestThatIsAllowed(t *testing.T) {
	if _, err := read(strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)); err != nil {
		t.Error(err)
	}
	if _, err := read("[" + strings.Repeat("[[]],", MaxDepth) + "1]"); err != nil {
		t.Errorf("many beside each other: %v", err)
	}
}

func TestReader_NamesAndStringsDoNotShareTheirBytes(t *testing.T) {
	got, err := read(`{"\u0061":"\u0062","\u0063":{"\u0064":["\u0065","\u0066"]}}`)
	want := map[string]any{"a": "b", "c": map[string]any{"d": []any{"e", "f"}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

// The strings and containers of a request are all that is allocated.
func TestReader_AllocatesNothingBeside(t *testing.T) {
	text := []byte(`{"a":"text","b":[true,null],"c":{"d":12}}`)
	// Two maps and their tables, a list, four names, a string and a number each with the interface around it.
	const most = 2*2 + 2 + 4 + 2*2
	if n := testing.AllocsPerRun(100, func() {
		r := NewReader(text)
		if _, err := r.Value(); err != nil {
			t.Error(err)
		}
	}); n > most {
		t.Errorf("%v allocations, want at most %d", n, most)
	}
}

// FuzzReader: of what passes the check for text, the reader takes what encoding/json takes, and makes the same of it.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		`{"query":"{ a }","variables":{"n":12345678901234567890,"m":-0.5e+7},"operationName":null,"extensions":{}}`,
		`[]`, `{}`, ` [ 1 , {"a" : [ true, false, null ] } ] `, `"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`, `{"a":1,"a":2}`, `{"":""}`,
		`"ü€😀"`, `01`, `1.`, `-`, `"\x"`, "\"\t\"", `nul`, `{"a":1}x`, strings.Repeat("[", 101), "\x00", `"\u0000"`, `1E5`, `"\uD83D\uDE00"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if graph.CheckJSONText(text) != nil {
			return
		}
		got, err := read(string(text))
		var want any
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		wantErr := d.Decode(&want)
		if wantErr == nil && len(bytes.TrimLeft(text[d.InputOffset():], " \t\r\n")) > 0 {
			wantErr = errors.New("more behind")
		}
		var fault *Error
		if errors.As(err, &fault) && fault.kind == tooDeep {
			return
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, encoding/json: %v", text, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: %#v, encoding/json: %#v", text, got, want)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	text := []byte(`{"query":"mutation Send($input: SendMessageInput!) { sendMessage(input: $input) { __typename ... on SendMessageSuccess { duplicate message { serial sentAt } } ... on UserError { reason } } }","variables":{"input":{"chatRoomId":"0198c0de-0000-7000-8000-000000000000","user":"alice","clientId":"b1","text":"Hello, this is a message of a usual length, as people write them."}}}`)
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := NewReader(text)
			if _, err := r.Value(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			d := json.NewDecoder(bytes.NewReader(text))
			d.UseNumber()
			var v any
			if err := d.Decode(&v); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestReader_RawIsTheTextOfAValue(t *testing.T) {
	for _, want := range []string{`{"a":[1,{"b":"\""}],"c":null}`, `[]`, `[[],{}]`, `"x\u00e9"`, `-1.5e3`, `true`, `false`, `null`} {
		r := NewReader([]byte(" \n" + want + " ,"))
		got, err := r.Raw()
		if err != nil || string(got) != want || r.Kind() != ',' {
			t.Errorf("%s: %s, %v, and then %q", want, got, err, r.Kind())
		}
	}
}

// Whatever Value refuses is refused, at the same byte.
func TestReader_RawIsAsStrictAsValue(t *testing.T) {
	for _, text := range []string{``, `?`, `{"a":1,}`, `{"a" 1}`, `{"a`, `[1 2]`, `[1,]`, `tru`, `1.`, `01x`, `"\x"`, "\"\n\"", `{"a":[tRue]}`,
		strings.Repeat("[", MaxDepth+1), strings.Repeat(`{"a":`, MaxDepth) + `[]`} {
		r, s := NewReader([]byte(text)), NewReader([]byte(text))
		_, got := r.Raw()
		_, want := s.Value()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
