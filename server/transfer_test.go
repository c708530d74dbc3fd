package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chathome/chathome/kafkasvc/transfer"
)

func exported(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errOut := once(t, environment(), append([]string{"export"}, args...)...)
	if code != 0 || !strings.Contains(errOut, "exported 2 rooms and 20 messages of home ") || !strings.Contains(errOut, "by shard: 0:") {
		t.Fatalf("export %v: %d\n%s%s", args, code, out, errOut)
	}
	return out
}

// content is what has to be the same: all but the first line, which names the home and its offsets.
func content(file string, sorted bool) []string {
	lines := strings.Split(file, "\n")[1:]
	if sorted {
		slices.Sort(lines)
	}
	return lines
}

// From a stopped instance's embedded broker to a broker of its own, from there to another home, and from a backup back:
// each time the second export is the first one.
func TestProgram_ExportsAndImports(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	s := launch(t, "serve", "--listen=127.0.0.1:0", "--data-dir="+own)
	s.waitReady()
	for _, room := range []string{"0b8f6e0a-5f0e-4f5e-9a45-0b8d3c6f7a11", "5c1d9a52-7f4e-4c1b-8a57-3f5f4b1f9a22"} {
		s.ask(`mutation { createChatRoom(input: {name: "lounge", id: "` + room + `"}) { ... on CreateChatRoomSuccess { duplicate } } }`)
		for i := range 10 {
			s.ask(fmt.Sprintf(`mutation { sendMessage(input: {chatRoomId: %q, user: "alice", clientId: "%d", text: "number %[2]d"}) { ... on SendMessageSuccess { duplicate } } }`, room, i))
		}
	}
	if code, _, errOut := once(t, environment(), "export", "--data-dir="+own); code != 1 || !strings.Contains(errOut, "another process") {
		t.Errorf("while it serves: %d %s", code, errOut)
	}
	s.cleanEnd()

	first := exported(t, "--data-dir="+own)
	backup := filepath.Join(dir, "backup.jsonl")
	exported(t, "--data-dir="+own, "--file="+backup)
	if b, err := os.ReadFile(backup); err != nil || string(b) != first {
		t.Errorf("the file differs from the output: %v", err)
	}
	if code, _, errOut := once(t, environment(), "export", "--data-dir="+own, "--file="+backup); code != 1 || !strings.Contains(errOut, "there already") {
		t.Errorf("onto a file that is there: %d %s", code, errOut)
	}

	b := launch(t, "broker", "--listen=127.0.0.1:0", "--data-dir="+filepath.Join(dir, "broker"))
	kafka := "--brokers=" + b.url
	for prefix, shards := range map[string]string{"chathome": "12", "other": "5"} {
		flags := []string{kafka, "--topic-prefix=" + prefix, "--shards=" + shards}
		for range 2 { // it may be repeated
			code, out, errOut := once(t, environment(), append([]string{"import", "--file=" + backup}, flags...)...)
			if code != 0 || !strings.Contains(errOut, "holds 2 rooms and 20 messages on "+shards+" shards") {
				t.Fatalf("import: %d\n%s%s", code, out, errOut)
			}
		}
		if again := exported(t, flags...); !slices.Equal(content(again, true), content(first, true)) {
			t.Errorf("%s differs:\n%s\n%s", prefix, first, again)
		}
	}
	code, _, errOut := once(t, environment(), "import", "--file="+backup, "--data-dir="+own)
	if code != 1 || !strings.Contains(errOut, "of this home holds messages or rooms that are not of this import") {
		t.Errorf("into a home that is not empty: %d %s", code, errOut)
	}

	now := launch(t, "serve", "--listen=127.0.0.1:0", kafka, "--data-dir=:memory:")
	now.waitReady()
	if got := now.ask(`{ chatRoom(id: "5c1d9a52-7f4e-4c1b-8a57-3f5f4b1f9a22") { name messages(last: 1) { edges { node { serial text } } } } }`); !strings.Contains(got, `"serial":"10","text":"number 9"`) {
		t.Errorf("served from the import: %s", got)
	}
	now.cleanEnd()
	b.end(os.Interrupt)
}

func TestProgram_TransfersSayWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		args string
		code int
		want string
	}{
		{"export --data-dir=:memory:", 2, "--data-dir"},
		{"export --file= --data-dir=" + dir, 2, "--file"},
		{"export --data-dir=" + dir, 1, "no embedded broker has kept anything"},
		{"export --brokers=127.0.0.1:9", 1, "connection refused: nothing listens there"},
		{"import --file=nowhere --data-dir=" + dir, 1, "nowhere"},
	} {
		code, out, errOut := once(t, environment(), strings.Fields(tc.args)...)
		if code != tc.code || !strings.Contains(errOut, tc.want) || out != "" {
			t.Errorf("%s: %d\n%s%s", tc.args, code, out, errOut)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 1 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestBar(t *testing.T) {
	b := newBar(&bytes.Buffer{}, "exporting")
	b.show(transfer.Progress{Done: 1, Total: 2}) // no terminal: nothing
	for want, p := range map[string]transfer.Progress{
		"exporting [###############...............]  50%  3 rooms, 100 messages, 50 a second": {Done: 5, Total: 10, Rooms: 3, Messages: 100},
		"exporting [##############################] 100%  0 rooms, 0 messages, 0 a second":    {Done: 12, Total: 10},
		"exporting: 1 rooms, 4 messages, 2 a second":                                          {Done: 5, Rooms: 1, Messages: 4},
	} {
		if got := b.line(p, 2*time.Second); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}
