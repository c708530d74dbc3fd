package graph_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/chathome/chathome/graph"
)

var jsonTexts = []struct {
	body string
	ok   bool
}{
	{``, true},
	{`{}`, true},
	{`"\ud83d\ude00"`, true},
	{`"\uD83D\uDE00"`, true},
	{`"\ud7ff \ue000 \uffff \ufffd"`, true},
	{`"\\ud800"`, true},
	{`"\\\\ud800"`, true},
	{`"ud800 \"ud800"`, true},
	{`"😀 é"`, true},
	{`"\ud800"`, false},
	{`"\uDFFF"`, false},
	{`"\\\ud800"`, false},
	{`"\ud800\ud800"`, false},
	{`"\udc00\ud800"`, false},
	{`"\ud83dx\ude00"`, false},
	{`"\ud83d\\ude00"`, false},
	{`"\ud83d\n"`, false},
	{`"\ud83d\u0041"`, false},
	{`"\ud83d\ude00\ude00"`, false},
	{`{"\ud800": 1}`, false},
	{`"\ud83d`, false},
	{`"\ud83d\ude0`, false},
	{"\"\xff\"", false},
	{"\"\xed\xa0\x80\"", false},
	{"\xff", false},
}

func TestCheckJSONText(t *testing.T) {
	for _, tc := range jsonTexts {
		if err := graph.CheckJSONText([]byte(tc.body)); (err == nil) != tc.ok {
			t.Errorf("%s: %v, want ok %v", tc.body, err, tc.ok)
		}
		if err := graph.CheckDocument(tc.body); (err == nil) != tc.ok {
			t.Errorf("document %s: %v, want ok %v", tc.body, err, tc.ok)
		}
	}
}

func TestCheckJSONText_AllocatesNothing(t *testing.T) {
	body := []byte(`{"query": "` + strings.Repeat(`\ud83d\ude00é\\`, 1000) + `"}`)
	if n := testing.AllocsPerRun(10, func() {
		if err := graph.CheckJSONText(body); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What passes is decoded without loss: encoding it again and decoding that gives the same, and U+FFFD stands
// only where the text itself has it.
func FuzzCheckJSONText(f *testing.F) {
	for _, tc := range jsonTexts {
		f.Add(tc.body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if graph.CheckJSONText([]byte(body)) != nil || !json.Valid([]byte(body)) {
			return
		}
		if !utf8.ValidString(body) {
			t.Fatal("invalid UTF-8 passed")
		}
		if strings.Contains(body, "\ufffd") || strings.Contains(strings.ToLower(body), `\ufffd`) {
			return
		}
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			return // numbers out of range
		}
		if again := jsonOf(v); strings.Contains(again, "\ufffd") || strings.Contains(again, `\ufffd`) {
			t.Errorf("%q was decoded with a replacement: %q", body, again)
		}
	})
}
