package ws

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestProtocol runs the conversations in testdata/protocol: each file is a series of connections to one
// server. Commands:
//
//	open [protocol=…] [origin=…]   upgrade; output: the status if it is refused
//	send                           each line is a text message; $ROOM is the room's id, $BIG 70,000 letters
//	frame first=…                  one frame with this first byte (hex), the input is its payload
//	recv [n=…]                     the next messages, or how the connection ended
//	post [n=…]                     messages into the room
//	lock, unlock                   the room's shard is lost, or served again
func TestProtocol(t *testing.T) {
	datadriven.Walk(t, "testdata/protocol", func(t *testing.T, path string) {
		s := newTestServer(t, tcp(t), Config{
			MaxOperations: 3,
			MaxMessage:    64 << 10,
			InitTimeout:   500 * time.Millisecond,
			CloseTimeout:  200 * time.Millisecond,
			Authenticate: func(_ context.Context, h http.Header, init json.RawMessage) (string, time.Time, error) {
				if strings.Contains(string(init), "bad") || h.Get("Authorization") == "bad" {
					return "", time.Time{}, errors.New("secret reason")
				}
				if strings.Contains(string(init), "old") {
					return "", time.Now().Add(-time.Second), nil
				}
				return "", time.Time{}, nil
			},
		})
		room := strings.NewReplacer("$ROOM", s.room.ID.String(), "$BIG", strings.Repeat("x", 70_000))
		unroom := strings.NewReplacer(s.room.ID.String(), "$ROOM")
		var c *client
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			n := 1
			d.MaybeScanArgs(t, "n", &n)
			switch d.Cmd {
			case "open":
				protocol, origin := Subprotocol, ""
				d.MaybeScanArgs(t, "protocol", &protocol)
				d.MaybeScanArgs(t, "origin", &origin)
				var extra []string
				if origin != "" {
					extra = append(extra, "Origin: "+origin)
				}
				if protocol == "none" {
					protocol = ""
				}
				var status int
				var body string
				if c, status, body = s.tryDial(protocol, nil, extra...); c == nil {
					return strconv.Itoa(status) + " " + body
				}
			case "send":
				for line := range strings.Lines(d.Input) {
					c.send(room.Replace(strings.TrimSpace(line)))
				}
			case "frame":
				var first string
				d.ScanArgs(t, "first", &first)
				b, err := strconv.ParseUint(first, 16, 8)
				if err != nil {
					t.Fatal(err)
				}
				c.frame(byte(b), []byte(d.Input))
			case "recv":
				for range n {
					out.WriteString(unroom.Replace(c.next()) + "\n")
				}
			case "post":
				s.home.PostN(s.room.ID, n)
			case "lock":
				s.home.Lock(s.room.Shard)
			case "unlock":
				s.home.Open(s.room.Shard)
			default:
				t.Fatalf("unknown command %s", d.Cmd)
			}
			return out.String()
		})
	})
}
