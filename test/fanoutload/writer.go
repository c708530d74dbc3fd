package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// writer sends one message after the other on a connection of its own.
type writer struct {
	t  *target
	c  net.Conn
	br *bufio.Reader
	id int
}

func newWriter(t *target) (*writer, error) {
	c, err := net.Dial("tcp", t.addr)
	if err != nil {
		return nil, fmt.Errorf("writer: %w", err)
	}
	w := &writer{t: t, c: c, br: bufio.NewReaderSize(c, 4096)}
	return w, t.openWriter(w)
}

var (
	runID   = strconv.FormatInt(time.Now().UnixMilli(), 36)
	padding = strings.Repeat("x", 8192)
)

// send writes one message and waits for its acknowledgement.
func (c *crowd) send(w *writer, size int, ack *ackTimes) error {
	q := c.sequence.Add(1)
	at := now()
	c.flights[q%flights].left = int32(len(c.byFd))
	text := fmt.Sprintf("T%019dS%010d;", at, q)
	text += padding[:max(0, size-len(text))]
	if err := w.t.send(w, text, q); err != nil {
		return err
	}
	ack.add(now() - at)
	return nil
}

type ackTimes struct {
	mu sync.Mutex
	h  histogram
}

func (a *ackTimes) add(ns int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.h.add(ns)
}

// post sends a GraphQL request on the writer's connection.
func (w *writer) post(body string) ([]byte, error) {
	_, err := fmt.Fprintf(w.c, "POST /graphql HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", w.t.addr, len(body), body)
	if err != nil {
		return nil, fmt.Errorf("post: %w", err)
	}
	r, err := http.ReadResponse(w.br, nil)
	if err != nil {
		return nil, fmt.Errorf("post: %w", err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("post: %s %.300s %w", r.Status, b, err)
	}
	return b, nil
}

// until reads WebSocket messages until one has want in it. Centrifugo only.
func (w *writer) until(want string) error {
	for {
		head, err := w.br.Peek(2)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		n, h := int(head[1]&127), 2
		if n == 126 {
			if head, err = w.br.Peek(4); err != nil {
				return fmt.Errorf("read: %w", err)
			}
			n, h = int(head[2])<<8|int(head[3]), 4
		}
		p := make([]byte, h+n)
		if _, err := io.ReadFull(w.br, p); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		p = p[h:]
		switch {
		case bytes.Contains(p, []byte(`"error"`)):
			return fmt.Errorf("answer: %s", p)
		case bytes.Contains(p, []byte(want)):
			return nil
		case w.t.isPing(p):
			_, _ = w.c.Write(frame(opText, w.t.pong))
		}
	}
}
