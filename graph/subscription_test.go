package graph_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph/stream"
	"github.com/chathome/chathome/internal/bubbletest"
)

const messagesDocument = `subscription($r: ID!, $after: String, $last: Int) { stream: messages(chatRoomId: $r, after: $after, last: $last) { edges { cursor node { serial text } } endCursor live } }`

// event is "1 2 3 live" or "1 2 3".
func event(r *response, field string) string {
	if r == nil {
		return "complete"
	}
	if len(r.Errors) > 0 {
		return "error " + r.code()
	}
	var words []string
	for _, e := range r.at(field, "edges").([]any) {
		words = append(words, fmt.Sprint(walk(e, "node", "serial")))
	}
	if r.at(field, "live") == true {
		words = append(words, "live")
	}
	return strings.Join(words, " ")
}

func TestMessages_SubscriptionStartsWhereItIsAsked(t *testing.T) {
	c := newClient(domaintest.Config{})
	room, empty := c.home.AddRoom("lobby"), c.home.AddRoom("empty")
	c.home.PostN(room.ID, 5)
	cursors := cursorsOf(c.home, room)
	for _, tc := range []struct {
		room        domain.ChatRoomInfo
		after, last any
		want, end   string
	}{
		{room, nil, nil, "1 2 3 4 5 live", "5"},
		{room, cursors["0"], nil, "1 2 3 4 5 live", "5"},
		{room, cursors["3"], nil, "4 5 live", "5"},
		{room, cursors["5"], nil, "live", "5"},
		{room, nil, 0, "live", "5"},
		{room, nil, 2, "4 5 live", "5"},
		{room, nil, 5, "1 2 3 4 5 live", "5"},
		{room, nil, 1000, "1 2 3 4 5 live", "5"},
		{empty, nil, nil, "live", "0"},
		{empty, nil, 0, "live", "0"},
		{empty, nil, 10, "live", "0"},
	} {
		next := c.start(t.Context(), messagesDocument, vars("r", tc.room.ID, "after", tc.after, "last", tc.last))
		r := next()
		if got := event(r, "stream"); got != tc.want {
			t.Errorf("after %v last %v: %q, want %q", tc.after, tc.last, got, tc.want)
		}
		if end := r.at("stream", "endCursor"); end != cursorsOf(c.home, tc.room)[tc.end] {
			t.Errorf("after %v last %v: ends elsewhere than at %s", tc.after, tc.last, tc.end)
		}
	}
	c.home.DeleteBefore(room.ID, 4)
	if got := event(c.start(t.Context(), messagesDocument, vars("r", room.ID))(), "stream"); got != "4 5 live" {
		t.Errorf("from the oldest that is left: %q", got)
	}
	if got := event(c.start(t.Context(), messagesDocument, vars("r", room.ID, "last", 5))(), "stream"); got != "4 5 live" {
		t.Errorf("the last 5 of 2: %q", got)
	}
}

func TestMessages_ReplayThenOneEventAGroupCommit(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := newClient(domaintest.Config{})
		room := c.home.AddRoom("lobby")
		c.home.PostN(room.ID, 2500)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		next := c.start(ctx, messagesDocument, vars("r", room.ID))
		serial := 0
		for i, want := range []struct {
			to   int
			live bool
		}{{960, false}, {1920, false}, {2500, true}} { // bounded, and at multiples of 64 until the end
			r := next()
			if n := len(r.at("stream", "edges").([]any)); serial+n != want.to || r.at("stream", "live") != want.live {
				t.Errorf("event %d: %d messages to %d, live %v", i, n, serial+n, r.at("stream", "live"))
			}
			for _, e := range r.at("stream", "edges").([]any) {
				serial++
				if walk(e, "node", "serial") != fmt.Sprint(serial) {
					t.Fatalf("serial %v, want %d", walk(e, "node", "serial"), serial)
				}
			}
		}
		for _, n := range []int{1, 3, 900} {
			c.home.PostN(room.ID, n)
			synctest.Wait()
			r := next()
			if got := len(r.at("stream", "edges").([]any)); got != n || r.at("stream", "live") != true {
				t.Errorf("a group commit of %d came as %d", n, got)
			}
		}
	})
}

func TestMessages_EventsAreBoundedInBytes(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := newClient(domaintest.Config{})
		room := c.home.AddRoom("lobby")
		for i := range 100 {
			c.home.Post(room.ID, domain.Draft{User: "a", ClientID: fmt.Sprint(i), Text: strings.Repeat("x", domain.MaxTextBytes)})
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		next := c.start(ctx, messagesDocument, vars("r", room.ID))
		for got := 0; got < 100; {
			r := next()
			n := len(r.at("stream", "edges").([]any))
			if got += n; n == 0 || n*domain.MaxTextBytes > 256<<10 || r.at("stream", "live") != (got == 100) {
				t.Fatalf("%d messages of %d bytes, live %v", n, domain.MaxTextBytes, r.at("stream", "live"))
			}
		}
	})
}

func TestMessages_ResumingFromAnyEndCursorNeitherSkipsNorRepeats(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := newClient(domaintest.Config{})
		room := c.home.AddRoom("lobby")
		after, serial := any(nil), 0
		for round := range 50 {
			ctx, cancel := context.WithCancel(t.Context())
			next := c.start(ctx, messagesDocument, vars("r", room.ID, "after", after))
			for range round % 4 { // cut after none to three events
				r := next()
				for _, e := range r.at("stream", "edges").([]any) {
					serial++
					if walk(e, "node", "serial") != fmt.Sprint(serial) {
						t.Fatalf("round %d: serial %v, want %d", round, walk(e, "node", "serial"), serial)
					}
				}
				after = r.at("stream", "endCursor")
				c.home.PostN(room.ID, 1+round)
			}
			cancel()
			synctest.Wait()
			c.home.Lock(room.Shard)
			c.home.Open(room.Shard)
		}
	})
}

// A writer sends every five milliseconds, and a subscriber is cut at any moment, two hundred times: between two events
// and in the middle of one, while it replays and while it is live. What it got in one resume chain is everything, once.
func TestMessages_CutAtAnyMomentWhileSomebodyWrites(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := newClient(domaintest.Config{})
		room := c.home.AddRoom("lobby")
		var all atomic.Int64
		var enough atomic.Bool
		var writing sync.WaitGroup
		writing.Go(func() {
			for !enough.Load() {
				c.home.PostN(room.ID, 1)
				all.Add(1)
				time.Sleep(5 * time.Millisecond)
			}
		})
		random := rand.New(rand.NewPCG(1, 2))
		after, serial := any(nil), 0
		take := func(r *response) {
			for _, e := range r.at("stream", "edges").([]any) {
				serial++
				if walk(e, "node", "serial") != fmt.Sprint(serial) {
					t.Fatalf("serial %v, want %d", walk(e, "node", "serial"), serial)
				}
			}
			after = r.at("stream", "endCursor")
		}
		for range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(300_000))*time.Microsecond)
			next := c.start(ctx, messagesDocument, vars("r", room.ID, "after", after))
			for r := next(); r != nil && len(r.Errors) == 0; r = next() {
				take(r)
				if random.IntN(4) == 0 {
					time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond) // a slow reader
				}
			}
			cancel()
		}
		if serial < 2000 {
			t.Errorf("%d messages in all", serial)
		}
		enough.Store(true)
		writing.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for next := c.start(ctx, messagesDocument, vars("r", room.ID, "after", after)); int64(serial) < all.Load(); {
			take(next())
		}
	})
}

func TestSubscriptions_EndWithOneLastEvent(t *testing.T) {
	for _, tc := range []struct {
		name, code string
		end        func(c *client, room domain.ChatRoomInfo)
	}{
		{"the tenure ends", "SHARD_NOT_OWNED", func(c *client, room domain.ChatRoomInfo) { c.home.Lock(room.Shard) }},
		{"the shard moves", "SHARD_NOT_OWNED", func(c *client, room domain.ChatRoomInfo) {
			c.home.Move(room.Shard, c.home.Join(domain.Instance{ID: "b", URL: "http://b"}))
		}},
		{"a read fails", "INTERNAL", func(c *client, room domain.ChatRoomInfo) {
			c.home.Inject(domaintest.Fault{Op: domaintest.OpMessages, Err: fmt.Errorf("secret")})
			c.home.PostN(room.ID, 1)
		}},
		{"a read panics", "INTERNAL", func(c *client, room domain.ChatRoomInfo) {
			c.home.Inject(domaintest.Fault{Op: domaintest.OpMessages, Panic: "secret"})
			c.home.PostN(room.ID, 1)
		}},
	} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, shared %v", tc.name, shared), func(t *testing.T) {
				bubbletest.Test(t, func(t *testing.T) {
					c := newClient(domaintest.Config{})
					room := c.home.AddRoom("lobby")
					c.home.PostN(room.ID, 2)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					var s *stream.Stream
					if shared {
						ctx, s = stream.Share(ctx)
					}
					next := c.start(ctx, messagesDocument, vars("r", room.ID))
					pos := domain.Serial(0)
					push := func() {
						if shared {
							pos, _ = s.Push(ctx, pos, 0)
						}
					}
					push()
					if got := event(next(), "stream"); got != "1 2 live" {
						t.Fatalf("first %q", got)
					}
					tc.end(c, room)
					push()
					last := next()
					if event(last, "stream") != "error "+tc.code || !strings.HasSuffix(last.raw, `"data":null}`) || strings.Contains(last.raw, "secret") {
						t.Errorf("last event %s", last.raw)
					}
					if jsonOf(last.Errors[0].Path) != `["stream"]` || jsonOf(last.Errors[0].Locations) != `[{"column":53,"line":1}]` {
						t.Errorf("path %v, locations %s", last.Errors[0].Path, jsonOf(last.Errors[0].Locations))
					}
					for range 2 {
						if r := next(); r != nil {
							t.Errorf("after the last event: %s", r.raw)
						}
					}
				})
			})
		}
	}
}

func TestSubscriptions_ARefusedStartHasTheSameShape(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	c.home.PostN(room.ID, 3)
	type start struct{ variables, code string }
	starts := map[string]start{
		"both":             {vars("r", room.ID, "after", cursorsOf(c.home, room)["1"], "last", 1), "BAD_REQUEST"},
		"more than cap":    {vars("r", room.ID, "last", 1001), "BAD_REQUEST"},
		"negative":         {vars("r", room.ID, "last", -1), "BAD_REQUEST"},
		"more than 32 bit": {`{"r": "` + room.ID.String() + `", "last": 99999999999}`, "BAD_REQUEST"},
	}
	for name, bad := range badCursors(c.home, room) {
		starts[name] = start{vars("r", room.ID, "after", bad.cursor), bad.code}
	}
	locked := c.home.AddRoomOn((room.Shard+2)%4, "locked")
	c.home.Lock(locked.Shard)
	starts["unknown room"] = start{vars("r", unknownOn(c.home)), "UNKNOWN_CHAT_ROOM"}
	starts["locked"] = start{vars("r", locked.ID), "SHARD_NOT_OWNED"}
	for name, tc := range starts {
		next := c.start(t.Context(), messagesDocument, tc.variables)
		r := next()
		if event(r, "stream") != "error "+tc.code || !strings.HasSuffix(r.raw, `"data":null}`) || r.Errors[0].Path[0] != "stream" {
			t.Errorf("%s: %s", name, r.raw)
		}
		if end := next(); end != nil {
			t.Errorf("%s: then %s", name, end.raw)
		}
	}
}

func TestSubscriptions_ALapsedLeaseLetsNoEventOut(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := newClient(domaintest.Config{})
		room := c.home.AddRoom("lobby")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		next := c.start(ctx, messagesDocument, vars("r", room.ID))
		next()
		c.home.PostN(room.ID, 1)
		synctest.Wait() // the event is made and waits for its transport
		c.home.Lapse(room.Shard)
		if r := next(); event(r, "stream") != "error SHARD_NOT_OWNED" {
			t.Errorf("%s", r.raw)
		}
		if r := next(); r != nil {
			t.Errorf("then %s", r.raw)
		}
	})
}

func TestSubscriptions_CancelledOnesEndSilently(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := newClient(domaintest.Config{})
		room := c.home.AddRoom("lobby")
		for _, document := range []string{messagesDocument, `subscription($r: ID) { chatRooms { live } }`, `subscription($r: ID) { shards { number } }`} {
			document = strings.Replace(document, "($r: ID)", "", 1)
			ctx, cancel := context.WithCancel(t.Context())
			next := c.start(ctx, document, vars("r", room.ID))
			next()
			time.AfterFunc(time.Second, cancel)
			if r := next(); r != nil {
				t.Errorf("%s: %s", document, r.raw)
			}
		}
	})
}

func TestSubscription_ChatRooms(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := newClient(domaintest.Config{})
		const document = `subscription($after: String) { chatRooms(after: $after) { edges { cursor node { serial: name } } endCursor live } }`
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		next := c.start(ctx, document, "")
		if got := event(next(), "chatRooms"); got != "live" {
			t.Errorf("first event of an empty house %q", got)
		}
		for i := range 3 {
			c.home.AddRoom(fmt.Sprint(i + 1))
			r := next()
			if got := event(r, "chatRooms"); got != fmt.Sprint(i+1, " live") {
				t.Errorf("room %d came as %q", i+1, got)
			}
			if r.at("chatRooms", "endCursor") != r.at("chatRooms", "edges", 0, "cursor") {
				t.Errorf("it ends elsewhere: %s", r.raw)
			}
		}
		c.home.LockAll() // on every instance, in any state
		second := c.ok(t, `{ chatRooms(first: 2) { pageInfo { endCursor } } }`, "").at("chatRooms", "pageInfo", "endCursor")
		third := c.ok(t, `{ chatRooms { pageInfo { endCursor } } }`, "").at("chatRooms", "pageInfo", "endCursor")
		for after, want := range map[any]string{second: "3 live", third: "live"} {
			r := c.start(ctx, document, vars("after", after))()
			if got := event(r, "chatRooms"); got != want || r.at("chatRooms", "endCursor") != third {
				t.Errorf("resumed: %s", r.raw)
			}
		}
		if r := c.start(ctx, document, vars("after", domain.ListCursor{Home: uuid.New(), Serial: 1}.String()))(); event(r, "chatRooms") != "error CURSOR_OUT_OF_RANGE" {
			t.Errorf("another life: %s", r.raw)
		}
	})
}

func TestSubscription_Shards_AtOnceThenOnChange(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c := newClient(domaintest.Config{Shards: 2})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		next := c.start(ctx, `subscription { shards { number state notOwned { progress { ratio } } } }`, "")
		states := func() string {
			r := next()
			return fmt.Sprint(r.at("shards", 0, "state"), " ", r.at("shards", 0, "notOwned", "progress", "ratio"))
		}
		if got := states(); got != "OPEN <nil>" {
			t.Errorf("at once: %s", got)
		}
		for _, step := range []struct {
			change func()
			want   string
		}{
			{func() { c.home.Lock(0) }, "LOCKED <nil>"},
			{func() { c.home.Load(0, 1, 4) }, "LOADING 0.25"},
			{func() { c.home.Load(0, 2, 4); c.home.Load(0, 4, 4) }, "LOADING 1"},
			{func() { c.home.Open(0) }, "OPEN <nil>"},
		} {
			synctest.Wait()
			step.change()
			if got := states(); got != step.want {
				t.Errorf("%s, want %s", got, step.want)
			}
		}
	})
}

// A sharing transport replays in pages that end at multiples of 64, so that readers meet.
func TestShared_ReplayPagesMeetAtMultiplesOf64(t *testing.T) {
	c := newClient(domaintest.Config{})
	room := c.home.AddRoom("lobby")
	c.home.PostN(room.ID, 300)
	cursors := cursorsOf(c.home, room)
	for _, from := range []domain.Serial{0, 1, 63, 64, 65, 130, 299, 300} {
		ctx, s := stream.Share(t.Context())
		next := c.start(ctx, messagesDocument, vars("r", room.ID, "after", cursors[fmt.Sprint(from)]))
		if !s.Following() || s.Start() != from {
			t.Fatalf("following %v from %d, want %d", s.Following(), s.Start(), from)
		}
		for pos := from; pos < 290; {
			to, ok := s.Push(ctx, pos, 290)
			want := min(290, (pos/64+1)*64)
			r := next()
			if !ok || to != want || r.at("stream", "endCursor") != cursors[fmt.Sprint(to)] || s.Cursor() != cursors[fmt.Sprint(to)] || r.at("stream", "live") != false {
				t.Errorf("from %d: page to %d, want %d: %v", pos, to, want, r.at("stream", "endCursor"))
			}
			if n := len(r.at("stream", "edges").([]any)); domain.Serial(n) != to-pos {
				t.Errorf("%d messages from %d to %d", n, pos, to)
			}
			pos = to
		}
		if to, ok := s.Push(ctx, 290, 0); !ok || to != 300 {
			t.Errorf("live to %d", to)
		}
		if got := event(next(), "stream"); !strings.HasSuffix(got, "299 300 live") {
			t.Errorf("live: %q", got)
		}
	}
}
