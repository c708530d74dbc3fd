package fanout

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math/rand"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/transport"
	"github.com/coder/websocket"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
)

// equalityDocument is one way to ask for a room's messages. Its answer names the position with endCursor, as c.
type equalityDocument struct {
	name, text string
	vars       []any
}

var equalityDocuments = []equalityDocument{
	{"plain", `subscription S($room: ID!, $after: String) { messages(chatRoomId: $room, after: $after) { edges { cursor node { id clientId user text serial sentAt } } c: endCursor live } }`, nil},
	{"aliases and fragments", `subscription A($room: ID!, $after: String) { m: messages(chatRoomId: $room, after: $after) { e: edges { k: cursor n: node { ...F } } c: endCursor again: edges { cursor } l: live t: __typename } } fragment F on Message { __typename i: id s: serial x: text text chatRoom { name id t: __typename } }`, nil},
	{"include", `subscription I($room: ID!, $after: String, $w: Boolean!) { messages(chatRoomId: $room, after: $after) { edges { cursor @include(if: $w) node { ... on Node { id } text @skip(if: $w) serial ...G @include(if: $w) } } c: endCursor live @include(if: $w) } } fragment G on Message { user sentAt }`, []any{"w", true}},
	{"skip", `subscription I($room: ID!, $after: String, $w: Boolean!) { messages(chatRoomId: $room, after: $after) { edges { cursor @include(if: $w) node { ... on Node { id } text @skip(if: $w) serial ...G @include(if: $w) } } c: endCursor live @include(if: $w) } } fragment G on Message { user sentAt }`, []any{"w", false}},
	{"two operations, root in a fragment", `fragment R on Subscription { messages(chatRoomId: $room, after: $after) { edges { node { text ...H } } c: endCursor live } } fragment H on Message { id ...J } fragment J on Message { serial } subscription X($after: String, $room: ID!) { ...R } query Y { instance { id } }`, []any{"operationName", "X"}},
	{"cursor used twice", `subscription T($room: ID!, $after: String) { messages(chatRoomId: $room, after: $after) { edges { node { serial chatRoom { messages(first: 1, before: $after) { edges { cursor } } } } } c: endCursor } }`, nil},
}

var trickyTexts = []string{"a", `quote " back \ slash`, "ü € 😀", "<b>&amp;</b>", "line\ntab\t", "T\u2028x\u2029", strings.Repeat("long ", 300)}

func trickyDraft(i int) domain.Draft {
	return domain.Draft{User: "u", ClientID: fmt.Sprint(i), Text: trickyTexts[i%len(trickyTexts)]}
}

// sent is one event as a subscriber got it.
type sent struct {
	document int
	start    domain.Serial // where its subscription began: what its cursor variable says
	from, to domain.Serial
	payload  []byte
}

// TestEquality_SharedBytesAreThoseOfGqlgensOwnTransport: subscribers with many documents, some slow, some
// leaving and resuming, while messages come in bursts. Every event is asked for again, alone, from gqlgen's
// own WebSocket transport over a home that holds exactly the messages up to its end.
func TestEquality_SharedBytesAreThoseOfGqlgensOwnTransport(t *testing.T) {
	const messages, each = 300, 4
	h := newHouse(t, Config{LaneSize: 4})
	var mu sync.Mutex
	var all []sent
	var wg sync.WaitGroup
	for d, doc := range equalityDocuments {
		for i := range each {
			wg.Add(1)
			go func() {
				defer wg.Done()
				rnd := rand.New(rand.NewSource(int64(d*each + i)))
				pos := domain.Serial(0)
				for pos < messages {
					start := pos
					s, arrived := &sink{}, make(chan []byte, 4*messages)
					s.onEvent = func(p []byte) { arrived <- p }
					if i == 1 {
						s.setSlow()
					}
					options := append([]any{"after", h.cursorAt(start)}, doc.vars...)
					op, err := operation(context.Background(), h.exec, doc.text, h.room, options...)
					if err != nil {
						t.Error(err)
						return
					}
					sub := h.hub.NewSubscription(context.Background(), s)
					sub.Run(Request{Exec: h.exec, Operation: op, Sink: s})
					for stay := true; stay; {
						p := <-arrived
						e := sent{document: d, start: start, from: pos, to: positionOf(t, p), payload: p}
						pos = e.to
						mu.Lock()
						all = append(all, e)
						mu.Unlock()
						if i == 1 {
							time.Sleep(5 * time.Millisecond)
							s.release()
							s.setSlow()
						}
						stay = e.to < messages && (i < 3 || rnd.Intn(8) > 0)
					}
					sub.Stop()
					s.release()
				}
			}()
		}
	}
	for i := 0; i < messages; {
		n := min(1+i%13, messages-i)
		drafts := make([]domain.Draft, n)
		for k := range drafts {
			drafts[k] = trickyDraft(i + k)
		}
		h.home.Post(h.room.ID, drafts...)
		i += n
		// Not faster than most readers: else there are few and large events only.
		for k, before := 0, h.seen.executed.Load(); k < 20 && h.seen.executed.Load() < before+4; k++ {
			time.Sleep(time.Millisecond)
		}
	}
	wg.Wait()
	checkEquality(t, h, all)
	if executed := h.seen.executed.Load(); executed >= int64(len(all)) {
		t.Errorf("%d executions for %d events: nothing was shared", executed, len(all))
	}
}

// positionOf reads the alias c, wherever the root field's alias put it.
func positionOf(t *testing.T, payload []byte) domain.Serial {
	var r struct{ Data map[string]struct{ C string } }
	if err := json.Unmarshal(payload, &r); err != nil {
		t.Errorf("%v: %s", err, payload)
		return 1 << 30
	}
	for _, root := range r.Data {
		c, err := domain.ParseCursor(root.C)
		if err != nil {
			t.Errorf("%v: %s", err, payload)
			return 1 << 30
		}
		return c.Serial
	}
	t.Errorf("no data: %s", payload)
	return 1 << 30
}

func checkEquality(t *testing.T, h *house, all []sent) {
	t.Helper()
	replica := domaintest.New(domaintest.Config{Now: noon, Home: h.home.Home()})
	if _, _, err := replica.CreateChatRoom(t.Context(), h.room.ID, h.room.Name); err != nil {
		t.Fatal(err)
	}
	server := handler.New(graph.New(replica))
	server.AddTransport(transport.Websocket{})
	graph.Configure(server, slog.New(slog.DiscardHandler))
	web := httptest.NewServer(server)
	defer web.Close()
	stock := dialStock(t, web.URL)
	slices.SortStableFunc(all, func(a, b sent) int { return int(a.to - b.to) })
	posted := domain.Serial(0)
	checked := map[string][]byte{}
	for _, e := range all {
		for ; posted < e.to; posted++ {
			replica.Post(h.room.ID, trickyDraft(int(posted)))
		}
		if e.document == 5 && e.start != e.from {
			continue // its cursor shows in the answer: only its first event can be asked for again
		}
		doc := equalityDocuments[e.document]
		key := fmt.Sprint(e.document, e.from, e.to)
		want, ok := checked[key]
		if !ok {
			want = stock.first(h, doc, e.from)
			checked[key] = want
		}
		// The replica stands at the event's end, so its event is live; whether ours was hung on the moment.
		if got := alwaysLive(e.payload); !bytes.Equal(got, alwaysLive(want)) {
			t.Fatalf("%s (%d,%d]\ngot  %.400s\nwant %.400s", doc.name, e.from, e.to, got, want)
		}
	}
	t.Logf("%d events, %d different ones, equal byte for byte", len(all), len(checked))
}

func alwaysLive(p []byte) []byte {
	p = bytes.ReplaceAll(p, []byte(`"live":false`), []byte(`"live":true`))
	return bytes.ReplaceAll(p, []byte(`"l":false`), []byte(`"l":true`))
}

// stockClient asks gqlgen's own transport.
type stockClient struct {
	t  *testing.T
	ws *websocket.Conn
	n  int
}

func dialStock(t *testing.T, url string) *stockClient {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { _ = ws.CloseNow() })
	c := &stockClient{t: t, ws: ws}
	c.send(map[string]any{"type": "connection_init"})
	c.read("connection_ack", "")
	return c
}

func (c *stockClient) send(m any) {
	b, err := json.Marshal(m)
	if err == nil {
		err = c.ws.Write(c.t.Context(), websocket.MessageText, b)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *stockClient) read(kind, id string) json.RawMessage {
	for {
		_, b, err := c.ws.Read(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		var m struct {
			ID, Type string
			Payload  json.RawMessage
		}
		if err := json.Unmarshal(b, &m); err != nil {
			c.t.Fatal(err)
		}
		if m.Type == kind && m.ID == id {
			return m.Payload
		}
		if m.Type == "error" {
			c.t.Fatalf("stock: %s", m.Payload)
		}
	}
}

// first is the first event behind a position.
func (c *stockClient) first(h *house, doc equalityDocument, from domain.Serial) []byte {
	c.n++
	id := fmt.Sprint(c.n)
	vars := map[string]any{"room": h.room.ID.String(), "after": h.cursorAt(from)}
	payload := map[string]any{"query": doc.text, "variables": vars}
	for i := 0; i < len(doc.vars); i += 2 {
		if name := doc.vars[i].(string); name == "operationName" {
			payload[name] = doc.vars[i+1]
		} else {
			maps.Copy(vars, map[string]any{name: doc.vars[i+1]})
		}
	}
	c.send(map[string]any{"id": id, "type": "subscribe", "payload": payload})
	p := c.read("next", id)
	c.send(map[string]any{"id": id, "type": "complete"})
	return p
}
