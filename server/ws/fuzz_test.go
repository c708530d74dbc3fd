package ws

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// FuzzParse: whatever a client sends is refused, or it is a message whose parts are what the protocol says and
// whose text was not changed.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		`{"type":"connection_init","payload":{"a":1}}`,
		`{"id":"1","type":"subscribe","payload":{"query":"{ a }","variables":{"n":12345678901234567890},"operationName":null,"extensions":{}}}`,
		`{"id":"1","type":"complete"}`, `{"type":"ping","payload":null}`, `{"type":"ping","payload":{"a":"\ud83d\ude00"}}`,
		`{"type":"ping","payload":{"a":"\ud83d"}}`, `{"type":"ping","type":"pong"}`, "\xff", `null`, `"ping"`, `{"type":"\\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatal("took what is no JSON")
		}
		switch m.kind {
		case typeInit, typePing, typePong:
			if m.payload != nil && m.payload[0] != '{' {
				t.Fatalf("payload %s", m.payload)
			}
		case typeSubscribe:
			if m.id == "" || m.params == nil {
				t.Fatalf("subscribe without id or parameters: %+v", m)
			}
		case typeComplete:
			if m.id == "" {
				t.Fatal("complete without id")
			}
		default:
			t.Fatalf("took type %q", m.kind)
		}
		if !utf8.ValidString(m.id) || len(m.id) > maxID {
			t.Fatalf("id %q", m.id)
		}
		for _, frame := range [][]byte{reply{ID: m.id, Type: typePong, Payload: m.payload}.frame(), append(nextPrefix(m.id), "{}}"...)} {
			payload := frame
			if frame[0] != '{' {
				payload = frame[headerLen(frame):]
			}
			if !json.Valid(payload) {
				t.Fatalf("answer %s", payload)
			}
		}
	})
}

func headerLen(frame []byte) int {
	switch frame[1] {
	case 126:
		return 4
	case 127:
		return 10
	}
	return 2
}

func TestReasonExists_FitsAControlFrame(t *testing.T) {
	for _, id := range []string{"", "a", "ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää"} {
		for pad := range 4 {
			r := reasonExists("xxx"[:min(pad, 3)] + id)
			if len(r) > maxCloseReason || !utf8.ValidString(r) {
				t.Errorf("%d bytes: %q", len(r), r)
			}
		}
	}
}
