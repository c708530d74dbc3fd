package hostile

import (
	"bytes"
	"compress/flate"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// attack is something that hostile clients do. It returns when the server has ended all of it.
type attack struct {
	name string
	do   func(t *testing.T, a *api, n int)
	n    int // of connections, in the small form and in the full one
	full int
}

func attacks() []attack {
	return []attack{
		{"sockets that never read but pong", neverReadButPong, 60, 1000},
		{"event streams with a closed window", closedWindow, 40, 200},
		{"upgrades without init", withoutInit, 200, 2000},
		{"sockets that say nothing after init", silentAfterInit, 100, 2000},
		{"request headers, byte by byte", slowHeaders, 60, 500},
		{"upgrade headers, byte by byte", slowUpgrade, 60, 500},
		{"bodies, byte by byte", slowBody, 60, 500},
		{"floods of large frames", largeFrames, 8, 32},
		{"floods of compressed frames", compressedFrames, 8, 32},
		{"ten thousand subscriptions on one socket", manySubscriptions, 2, 1},
		{"subscribers that leave in five ways", fiveWays, 50, 1000},
	}
}

// together does something for each of n, sixteen at a time.
func together(n int, do func(i int)) {
	var all sync.WaitGroup
	next := make(chan int)
	for range 16 {
		all.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	all.Wait()
}

// open makes n connections, up to 800 a second: who makes them and who is attacked share a machine.
func open(n int, make1 func() *raw) []*raw {
	list := make([]*raw, n)
	together(n, func(i int) {
		list[i] = make1()
		time.Sleep(20 * time.Millisecond)
	})
	return list
}

// allEnd waits until the server has ended all of them.
func allEnd(t *testing.T, what string, list []*raw) {
	t.Helper()
	var mu sync.Mutex
	left := 0
	var all sync.WaitGroup
	for _, c := range list {
		all.Go(func() {
			if !c.ended() {
				mu.Lock()
				left++
				mu.Unlock()
			}
			_ = c.Close()
		})
	}
	all.Wait()
	if left > 0 {
		t.Errorf("%d of %d were still held after %s: %s", left, len(list), patience, what)
	}
}

// flood fills a room until every subscriber that does not read is stuck: 20 messages of 8 KB a second.
func flood(t *testing.T, a *api, room string, messages int) {
	text := strings.Repeat("x", 8000)
	for i := range messages {
		if err := a.send(context.Background(), room, "f"+strconv.Itoa(i), text); err != nil {
			t.Errorf("flood: %v", err)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

const stuckAfter = 60 // messages of 8 KB: more than all buffers between the server and a client that does not read

// neverReadButPong is alive by every sign, but for reading.
func neverReadButPong(t *testing.T, a *api, n int) {
	room := a.room(t, "busy")
	list := open(n, func() *raw { return ready(t, a.address, 4096) })
	together(n, func(i int) { _ = list[i].text(subscription("s", room)) })
	left := make([]bool, n)
	alive := n
	go flood(t, a, room, stuckAfter)
	for began := time.Now(); alive > 0; time.Sleep(500 * time.Millisecond) {
		for i, c := range list {
			if left[i] {
				continue
			}
			// Ours, and WebSocket's own. An error: the server has cut it.
			if c.text(`{"type":"pong"}`) != nil || c.frame(0x8A, nil) != nil {
				left[i] = true
				alive--
				_ = c.Close()
			}
		}
		if time.Since(began) > patience-10*time.Second {
			t.Errorf("%d of %d sockets that never read are held for %s", alive, n, time.Since(began))
			for _, c := range list {
				_ = c.Close()
			}
			return
		}
	}
}

// closedWindow is the same over an event stream: the client's window is zero once its buffer is full.
func closedWindow(t *testing.T, a *api, n int) {
	room := a.room(t, "busy")
	list := open(n, func() *raw { return stream(t, a.address, room, 4096) })
	time.Sleep(300 * time.Millisecond)
	flood(t, a, room, stuckAfter)
	// Whoever reads before the write timeout would be a slow reader, and served.
	time.Sleep(13 * time.Second)
	allEnd(t, "event streams that nobody reads", list)
}

// withoutInit never says connection_init: all are closed with 4408.
func withoutInit(t *testing.T, a *api, n int) {
	list := open(n, func() *raw { return socket(t, a.address, 0, "") })
	var others sync.Map
	together(n, func(i int) {
		if got := list[i].next(); got != "closed 4408" && got != tryLater {
			others.Store(got, true)
		}
	})
	others.Range(func(got, _ any) bool {
		t.Errorf("without an init: %v", got)
		return true
	})
	allEnd(t, "sockets without an init", list)
}

// silentAfterInit: whoever does not answer pings is cut.
func silentAfterInit(t *testing.T, a *api, n int) {
	allEnd(t, "sockets that answer no ping", open(n, func() *raw { return ready(t, a.address, 0) }))
}

// trickle sends each a byte of text now and then, until the server ends it.
func trickle(t *testing.T, what, head, text string, a *api, n int) {
	list := open(n, func() *raw {
		c := dial(t, a.address, 0)
		c.say(head)
		return c
	})
	done := make(chan struct{})
	var saying sync.WaitGroup
	saying.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			for _, c := range list {
				c.say(text[i%len(text):][:1])
			}
		}
	})
	allEnd(t, what, list)
	close(done)
	saying.Wait()
}

func slowHeaders(t *testing.T, a *api, n int) {
	trickle(t, "slow headers", "POST /graphql HTTP/1.1\r\nHost: a\r\nX: ", "y", a, n)
}

func slowUpgrade(t *testing.T, a *api, n int) {
	trickle(t, "a slow handshake", strings.TrimSuffix(upgrade, "\r\n"), "y", a, n)
}

func slowBody(t *testing.T, a *api, n int) {
	trickle(t, "a slow body", "POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{", " ", a, n)
}

// A flood goes on for so long, each of sixteen clients beginning again so often: as fast as they can, clients on the
// same machine would only show how much of it they use up themselves.
const (
	floodFor   = 5 * time.Second
	floodPause = 50 * time.Millisecond
)

// largeFrames: messages at the limit, beyond it, and one that never ends, again and again.
func largeFrames(t *testing.T, a *api, n int) {
	odd := map[string][]byte{
		"closed 1009": bytes.Repeat([]byte("x"), 70_000),
		"closed 4400": bytes.Repeat([]byte("x"), 64<<10),
	}
	together(n, func(int) {
		for until := time.Now().Add(floodFor); time.Now().Before(until); time.Sleep(floodPause) {
			for want, payload := range odd {
				c := ready(t, a.address, 0)
				_ = c.frame(0x81, payload)
				if got := c.next(); got != want && got != "gone" { // a reset may overtake the code
					t.Errorf("a frame of %d bytes: %s, want %s", len(payload), got, want)
				}
				_ = c.Close()
			}
			c := ready(t, a.address, 0)
			_ = c.frame(0x01, payloadOf(1000))
			for range 200 {
				if c.frame(0x00, payloadOf(1000)) != nil {
					break
				}
			}
			if got := c.next(); got != "closed 1009" && got != "gone" {
				t.Errorf("a message without an end: %s", got)
			}
			_ = c.Close()
		}
	})
}

func payloadOf(n int) []byte { return bytes.Repeat([]byte("x"), n) }

// compressedFrames: compression was offered, not accepted, and is used all the same; 64 KB that would become 64 MB.
func compressedFrames(t *testing.T, a *api, n int) {
	var bomb bytes.Buffer
	z, _ := flate.NewWriter(&bomb, flate.BestCompression)
	for range 64 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	_ = z.Flush()
	payload := bomb.Bytes()[:min(bomb.Len(), 64<<10)]
	together(n, func(int) {
		for until := time.Now().Add(floodFor); time.Now().Before(until); time.Sleep(floodPause) {
			c := socket(t, a.address, 0, "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n")
			_ = c.frame(0xC1, payload)
			if got := c.next(); got != "closed 1002" && got != "gone" {
				t.Errorf("a compressed frame: %s", got)
			}
			_ = c.Close()
		}
	})
}

// manySubscriptions: the 101st ends the connection, and none of those before stays. Who is thrown out comes again.
func manySubscriptions(t *testing.T, a *api, n int) {
	room := a.room(t, "busy")
	together(n, func(int) {
		for until := time.Now().Add(floodFor); time.Now().Before(until); time.Sleep(floodPause) {
			c := ready(t, a.address, 0)
			go func() {
				for i := range 10_000 {
					if c.text(subscription(strconv.Itoa(i), room)) != nil {
						return
					}
				}
			}()
			for {
				got := c.next()
				if got == "gone" || got == "closed 4429" {
					break
				}
				if !strings.Contains(got, `"next"`) {
					t.Errorf("ten thousand subscriptions: %s", got)
					break
				}
			}
			_ = c.Close()
		}
	})
}

// fiveWays is five subscriptions each, ended by complete, a close frame, FIN, RST, and silence, with a message
// on its way.
func fiveWays(t *testing.T, a *api, n int) {
	room := a.room(t, "left")
	list := open(n, func() *raw {
		c := ready(t, a.address, 0)
		for i := range 5 {
			_ = c.text(subscription(strconv.Itoa(i), room))
		}
		for range 5 {
			if got := c.next(); !strings.Contains(got, `"next"`) {
				t.Errorf("subscribe: %s", got)
			}
		}
		return c
	})
	streams := open(n/5, func() *raw { return stream(t, a.address, room, 0) })
	go flood(t, a, room, 5)
	var silent []*raw
	for i, c := range list {
		switch i % 5 {
		case 0:
			for k := range 5 {
				_ = c.text(fmt.Sprintf(`{"id":"%d","type":"complete"}`, k))
			}
			_ = c.text(`{"type":"ping"}`)
			for got := ""; got != "gone" && !strings.Contains(got, `"pong"`); {
				got = c.next()
			}
			_ = c.Close()
		case 1:
			_ = c.frame(0x88, []byte{0x03, 0xe8})
			silent = append(silent, c)
		case 2:
			_ = c.CloseWrite()
			silent = append(silent, c)
		case 3:
			_ = c.SetLinger(0)
			_ = c.Close()
		case 4:
			silent = append(silent, c)
		}
	}
	for i, c := range streams {
		switch i % 3 {
		case 0:
			_ = c.CloseWrite()
			silent = append(silent, c)
		case 1:
			_ = c.SetLinger(0)
			_ = c.Close()
		case 2:
			_ = c.Close()
		}
	}
	allEnd(t, "subscribers that left", silent)
}
