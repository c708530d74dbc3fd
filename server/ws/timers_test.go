package ws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/internal/bubbletest"
	"github.com/chathome/chathome/server/auth"
)

// inBubble runs a test in fake time over pipes.
func inBubble(t *testing.T, cfg Config, f func(t *testing.T, s *testServer)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		s := newTestServer(t, newPipes(), cfg)
		f(t, s)
		s.stop()
		synctest.Wait()
	})
}

func TestPing_SilentPeerIsCutWithinTwoIntervals(t *testing.T) {
	inBubble(t, Config{PingInterval: 10 * time.Second}, func(t *testing.T, s *testServer) {
		c := s.ready()
		start := time.Now()
		for { // it reads, and answers nothing
			if _, _, err := c.read(); err != nil {
				break
			}
		}
		if d := time.Since(start); d < 10*time.Second || d > 20*time.Second {
			t.Errorf("cut after %v", d)
		}
		synctest.Wait()
		if s.ends.of(EndSilent) != 1 {
			t.Errorf("ends: %v", s.ends.seen)
		}
	})
}

func TestPing_AnyAnswerKeepsTheConnection(t *testing.T) {
	inBubble(t, Config{PingInterval: 10 * time.Second}, func(t *testing.T, s *testServer) {
		c := s.ready()
		for start := time.Now(); time.Since(start) < time.Hour; {
			opcode, payload, err := c.read()
			if err != nil {
				t.Fatal(err)
			}
			if opcode == opPing {
				c.frame(final|opPong, payload)
			}
		}
		c.send(`{"type":"ping"}`)
		c.want(`{"type":"pong"}`)
	})
}

func TestExpiry_ClosesWithACodeOnWhichClientsRetry(t *testing.T) {
	authenticate := func(_ context.Context, _ http.Header, init json.RawMessage) (string, time.Time, error) {
		var p struct{ Token time.Time }
		if json.Unmarshal(init, &p) != nil {
			return "", time.Time{}, errors.New("no token")
		}
		return "alice", p.Token, nil
	}
	inBubble(t, Config{Authenticate: authenticate}, func(t *testing.T, s *testServer) {
		login := func(until time.Time) *client {
			c := s.dial(Subprotocol, nil)
			c.send(fmt.Sprintf(`{"type":"connection_init","payload":{"token":%q}}`, until.Format(time.RFC3339Nano)))
			return c
		}
		start := time.Now()
		c := login(start.Add(5 * time.Second))
		c.want(`{"type":"connection_ack"}`)
		c.subscribe("s", s.room, "")
		c.event("s")
		time.Sleep(4 * time.Second)
		s.home.PostN(s.room.ID, 1)
		cursor := c.event("s").Data.Messages.EndCursor
		c.want("closed 4403 Forbidden: authentication has expired")
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("closed after %v", d)
		}
		time.Sleep(3 * time.Second)
		s.home.PostN(s.room.ID, 1)

		c = login(time.Now().Add(time.Hour))
		c.want(`{"type":"connection_ack"}`)
		c.subscribe("s", s.room, fmt.Sprintf(`"after":%q`, cursor))
		if e := c.event("s").Data.Messages.Edges; len(e) != 1 || e[0].Node.Serial != "2" {
			t.Errorf("resumed with %v, want serial 2", e)
		}
		login(time.Now().Add(-time.Second)).want("closed 4403 Forbidden: authentication has expired")
	})
}

func TestAuthenticate_ViewerReachesResolvers(t *testing.T) {
	if v := auth.Viewer(auth.WithViewer(t.Context(), "alice")); v != "alice" {
		t.Errorf("viewer %q", v)
	}
	seen := make(chan string, 1)
	inBubble(t, Config{
		Authenticate: func(_ context.Context, h http.Header, init json.RawMessage) (string, time.Time, error) {
			seen <- h.Get("Authorization") + string(init)
			return "alice", time.Time{}, nil
		},
	}, func(t *testing.T, s *testServer) {
		c := s.dial(Subprotocol, nil, "Authorization: Bearer x")
		c.send(`{"type":"connection_init","payload":{"a":1}}`)
		c.want(`{"type":"connection_ack"}`)
		if got := <-seen; got != `Bearer x{"a":1}` {
			t.Errorf("Authenticate saw %s", got)
		}
	})
}

func TestRead_MessageThatHasBegunMustEnd(t *testing.T) {
	inBubble(t, Config{ReadTimeout: 5 * time.Second}, func(t *testing.T, s *testServer) {
		c := s.ready()
		start := time.Now()
		whole := maskedFrame(final|opText, []byte(`{"type":"ping"}`))
		if _, err := c.Write(whole[:10]); err != nil {
			t.Fatal(err)
		}
		if got := c.next(); got != "gone" {
			t.Errorf("got %s", got)
		}
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("gone after %v", d)
		}
	})
}

func TestWrite_ClientThatStopsReadingIsCutWithinTheDeadline(t *testing.T) {
	inBubble(t, Config{WriteTimeout: 5 * time.Second}, func(t *testing.T, s *testServer) {
		c := s.ready()
		c.subscribe("s", s.room, `"last":0`)
		c.event("s")
		s.home.PostN(s.room.ID, 1) // a pipe has no buffer
		start := time.Now()
		synctest.Wait()
		time.Sleep(5*time.Second - time.Millisecond)
		synctest.Wait()
		if n := s.transport.Connections(); n != 1 {
			t.Fatalf("%d connections before the deadline", n)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := s.transport.Connections(); n != 0 || s.ends.of(EndSlow) != 1 {
			t.Errorf("%d connections %v after the write; ends %v", n, time.Since(start), s.ends.seen)
		}
	})
}

// TestWrite_ClientThatReadsLittleIsNotCut: 4 KB/s are slow, not dead, however large the event.
func TestWrite_ClientThatReadsLittleIsNotCut(t *testing.T) {
	inBubble(t, Config{WriteTimeout: 5 * time.Second, PingInterval: 12 * time.Second}, func(t *testing.T, s *testServer) {
		c := s.ready()
		c.subscribe("s", s.room, `"last":0`)
		c.event("s")
		s.home.Post(s.room.ID, bigDrafts(0, 30, 8000)...)
		total, buf := 0, make([]byte, 1024)
		_ = c.SetReadDeadline(time.Time{})
		for start := time.Now(); total < 240_000; {
			n, err := c.br.Read(buf)
			if err != nil {
				t.Fatalf("cut after %d bytes and %v", total, time.Since(start))
			}
			total += n
			time.Sleep(250 * time.Millisecond)
		}
	})
}

func TestShutdown_AnswersMutationsThenClosesWithACodeOnWhichClientsComeBack(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *testServer) {
		idle, busy, silent := s.ready(), s.ready(), s.dial(Subprotocol, nil)
		idle.subscribe("s", s.room, "")
		idle.event("s")
		hold := make(chan struct{})
		s.home.Inject(domaintest.Fault{Op: domaintest.OpSend, Wait: hold, Times: 1})
		busy.send(fmt.Sprintf(`{"id":"m","type":"subscribe","payload":{"query":"mutation M($i: SendMessageInput!) { sendMessage(input: $i) { __typename } }","variables":{"i":{"chatRoomId":%q,"user":"bob","clientId":"1","text":"hi"}}}}`, s.room.ID))
		synctest.Wait()
		done := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			done <- s.transport.Shutdown(ctx)
		}()
		idle.want("closed 1001 Server is shutting down")
		silent.want("closed 1001 Server is shutting down")
		synctest.Wait()
		busy.send(`{"id":"late","type":"subscribe","payload":{"query":"{ __typename }"}}`) // not begun any more
		time.Sleep(3 * time.Second)
		close(hold)
		busy.want(`{"id":"m","type":"next","payload":{"data":{"sendMessage":{"__typename":"SendMessageSuccess"}}}}`)
		busy.want(`{"id":"m","type":"complete"}`)
		busy.want("closed 1001 Server is shutting down")
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, status, _ := s.tryDial(Subprotocol, nil); status != http.StatusServiceUnavailable {
			t.Errorf("a new socket while stopping: %d", status)
		}
	})
}

func TestShutdown_CutsWhatDoesNotEndInTime(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *testServer) {
		c := s.ready()
		hold := make(chan struct{})
		s.home.Inject(domaintest.Fault{Op: domaintest.OpSend, Wait: hold, Times: 1})
		c.send(fmt.Sprintf(`{"id":"m","type":"subscribe","payload":{"query":"mutation M($i: SendMessageInput!) { sendMessage(input: $i) { __typename } }","variables":{"i":{"chatRoomId":%q,"user":"bob","clientId":"1","text":"hi"}}}}`, s.room.ID))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.transport.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if got := c.next(); !strings.HasPrefix(got, "gone") {
			t.Errorf("got %s", got)
		}
	})
}

func TestClose_ClientThatDoesNotAnswerIsLeft(t *testing.T) {
	inBubble(t, Config{CloseTimeout: time.Second, WriteTimeout: 5 * time.Second}, func(t *testing.T, s *testServer) {
		c := s.ready()
		c.send(`{"type":"connection_init"}`)
		start := time.Now()
		for n := 0; ; n++ {
			if _, _, err := c.read(); err != nil {
				break
			}
		}
		if d := time.Since(start); d != time.Second {
			t.Errorf("left after %v", d)
		}
	})
}
