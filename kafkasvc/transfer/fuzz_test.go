package transfer

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// Whatever a file holds, reading it ends with io.EOF or with the line that is wrong, and what was read can be written
// and read again.
func FuzzLines(f *testing.F) {
	const (
		head    = `{"export":{"format":1,"home":"7bd3e4a1-8c56-4a5b-9a6f-0e9a2d1c3b4f","shards":4,"upto":[0,0,0,0]}}` + "\n"
		room    = `{"room":{"id":"0b8f6e0a-5f0e-4f5e-9a45-0b8d3c6f7a11","name":"kitchen","createdAt":1}}` + "\n"
		message = `{"message":{"room":"0b8f6e0a-5f0e-4f5e-9a45-0b8d3c6f7a11","serial":1,"user":"alice","clientId":"1","text":"h\u00ef \ud834\udd1e","sentAt":1}}` + "\n"
	)
	for _, seed := range []string{head + room + message + `{"end":{"rooms":1,"messages":1}}` + "\n", room[:20], "\n\n", "{}\n", `{"room":null}` + "\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file string) {
		in := newLines(strings.NewReader(file))
		for {
			l, raw, err := in.next()
			var bad *FormatError
			switch {
			case errors.Is(err, io.EOF), errors.As(err, &bad):
				return
			case err != nil:
				t.Fatal(err)
			case len(raw) == 0:
				t.Fatal("a line of nothing")
			}
			var again strings.Builder
			w := newWriter(&again)
			if err := errors.Join(w.write(l), w.out.Flush()); err != nil {
				t.Fatal(err)
			}
			same, _, err := newLines(strings.NewReader(again.String())).next()
			if err != nil || l.Message != nil && *same.Message != *l.Message || l.Room != nil && *same.Room != *l.Room {
				t.Fatalf("%+v became %+v, %v", l, same, err)
			}
		}
	})
}
