package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
)

// Socket is one connection by graphql-transport-ws
// (https://github.com/enisdenjo/graphql-ws/blob/master/PROTOCOL.md).
type Socket struct {
	ws  *websocket.Conn
	tcp *net.TCPConn

	mu   sync.Mutex
	next int
	ops  map[string]chan message
	err  error // why it ended
	done chan struct{}
}

type message struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// Result is one event of an operation.
type Result struct {
	Data   json.RawMessage `json:"data"`
	Errors []Error         `json:"errors"`
}

// Error is an entry of errors.
type Error struct {
	Message    string     `json:"message"`
	Extensions Extensions `json:"extensions"`
}

// Extensions are what chathome says about an error.
type Extensions struct {
	Code          string `json:"code"`
	RetryAfterMs  int    `json:"retryAfterMs"`
	ShardNotOwned *struct {
		Shard        int    `json:"shard"`
		State        string `json:"state"`
		RetryAfterMs int    `json:"retryAfterMs"`
		Owner        *struct {
			Instance struct {
				ID  string `json:"id"`
				URL string `json:"url"`
			} `json:"instance"`
		} `json:"owner"`
	} `json:"shardNotOwned"`
}

func (e *Error) Error() string { return e.Extensions.Code + ": " + e.Message }

// ErrEnded: the connection is gone.
var ErrEnded = errors.New("connection ended")

// maxFrame bounds what a server may send at once: a page of 1,000 of the largest messages.
const maxFrame = 32 << 20

// Dial connects to the instance at baseURL (http://host:port) and waits for its acknowledgement.
func Dial(ctx context.Context, baseURL string) (*Socket, error) {
	url := "ws" + strings.TrimPrefix(baseURL, "http") + "/graphql"
	s := &Socket{ops: map[string]chan message{}, done: make(chan struct{})}
	// A transport for each: to know the connection underneath.
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		s.tcp, _ = conn.(*net.TCPConn)
		return conn, err
	}}
	ws, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{
		Subprotocols: []string{"graphql-transport-ws"}, HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", baseURL, err)
	}
	ws.SetReadLimit(maxFrame)
	s.ws = ws
	var ack message
	if err := wsjson.Write(ctx, ws, message{Type: "connection_init"}); err == nil {
		err = wsjson.Read(ctx, ws, &ack)
		if err == nil && ack.Type != "connection_ack" {
			err = fmt.Errorf("unexpected %q", ack.Type)
		}
		if err != nil {
			ws.CloseNow()
			return nil, fmt.Errorf("init %s: %w", baseURL, err)
		}
	} else {
		ws.CloseNow()
		return nil, fmt.Errorf("init %s: %w", baseURL, err)
	}
	go s.read()
	return s, nil
}

func (s *Socket) read() {
	for {
		var m message
		if err := wsjson.Read(context.Background(), s.ws, &m); err != nil {
			s.end(err)
			return
		}
		if m.Type == "ping" {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			err := wsjson.Write(ctx, s.ws, message{Type: "pong"})
			cancel()
			if err != nil {
				s.end(err)
				return
			}
			continue
		}
		s.mu.Lock()
		op := s.ops[m.ID]
		s.mu.Unlock()
		if op != nil {
			select {
			case op <- m:
			case <-s.done:
				return
			}
		}
	}
}

func (s *Socket) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = fmt.Errorf("%w: %w", ErrEnded, err)
		close(s.done)
		s.ws.CloseNow()
	}
}

// Close ends the connection at once.
func (s *Socket) Close() { s.end(errors.New("closed by the client")) }

// Reset ends the connection as a network does that breaks: with a TCP reset, whatever is under way.
func (s *Socket) Reset() {
	if s.tcp != nil {
		_ = s.tcp.SetLinger(0)
		_ = s.tcp.Close()
	}
}

// Ended is closed when the connection is gone.
func (s *Socket) Ended() <-chan struct{} { return s.done }

// Run starts an operation and calls each with its events until it completes, ctx ends, or each says so by an
// error. ErrEnded: the connection is gone.
func (s *Socket) Run(ctx context.Context, query string, vars any, each func(Result) error) error {
	v, err := json.Marshal(map[string]any{"query": query, "variables": vars})
	if err != nil {
		return err
	}
	op := make(chan message, 16)
	s.mu.Lock()
	if s.err != nil {
		defer s.mu.Unlock()
		return s.err
	}
	s.next++
	id := strconv.Itoa(s.next)
	s.ops[id] = op
	s.mu.Unlock()
	defer s.forget(id, op)
	if err := wsjson.Write(ctx, s.ws, message{ID: id, Type: "subscribe", Payload: v}); err != nil {
		s.end(err)
		return s.err
	}
	for {
		select {
		case m := <-op:
			switch m.Type {
			case "next":
				var r Result
				if err := json.Unmarshal(m.Payload, &r); err != nil {
					return fmt.Errorf("decode an event: %w", err)
				}
				if err := each(r); err != nil {
					s.complete(id, op)
					return err
				}
			case "error":
				var es []Error
				if err := json.Unmarshal(m.Payload, &es); err != nil || len(es) == 0 {
					return fmt.Errorf("error frame %s", m.Payload)
				}
				return &es[0]
			case "complete":
				return nil
			}
		case <-s.done:
			return s.err
		case <-ctx.Done():
			s.complete(id, op)
			return ctx.Err()
		}
	}
}

// forget ends the interest in an operation, and keeps the reader from waiting for it.
func (s *Socket) forget(id string, op chan message) {
	s.mu.Lock()
	delete(s.ops, id)
	s.mu.Unlock()
	for len(op) > 0 {
		<-op
	}
}

// complete tells the server that nobody listens any more.
func (s *Socket) complete(id string, op chan message) {
	s.forget(id, op)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := wsjson.Write(ctx, s.ws, message{ID: id, Type: "complete"}); err != nil {
		s.end(err)
	}
}

// Do runs an operation with one answer, into out. A *Error is the first of errors.
func (s *Socket) Do(ctx context.Context, query string, vars, out any) error {
	answered := false
	err := s.Run(ctx, query, vars, func(r Result) error {
		answered = true
		if len(r.Errors) > 0 {
			return &r.Errors[0]
		}
		return json.Unmarshal(r.Data, out)
	})
	if err == nil && !answered {
		err = errors.New("completed without an answer")
	}
	return err
}
