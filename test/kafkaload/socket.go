package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// socket is a connection by graphql-transport-ws that sends one message after the other to one room. It is made to
// take little of the processor, which it shares with what is measured.
type socket struct {
	conn net.Conn
	in   *bufio.Reader
	room string
	name string // of the user, and before the number in client ids
	sent int
	out  []byte
	got  []byte
}

const (
	upgrade = "GET /graphql HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"
	sendMessage = `mutation M($i: SendMessageInput!) { sendMessage(input: $i) { __typename ... on SendMessageSuccess { duplicate message { id serial } } ... on UserError { reason } } }`
	// answerLimit bounds every wait for the server.
	answerLimit = 15 * time.Second
)

// text is what everybody sends: 100 bytes.
const text = "The quick brown fox jumps over the lazy dog, and nobody knows why it would; it is a hundred bytes..."

func openSocket(ctx context.Context, address string, room uuid.UUID, name string) (*socket, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("open a socket: %w", err)
	}
	s := &socket{conn: conn, in: bufio.NewReaderSize(conn, 4096), room: room.String(), name: name}
	if err := s.shakeHands(address); err != nil {
		return nil, fmt.Errorf("open a socket: %w", errors.Join(err, conn.Close()))
	}
	return s, nil
}

func (s *socket) shakeHands(address string) error {
	if err := s.conn.SetDeadline(time.Now().Add(answerLimit)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.conn, upgrade, address); err != nil {
		return err
	}
	res, err := http.ReadResponse(s.in, nil)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return fmt.Errorf("the answer is %s", res.Status)
	}
	if err := s.write(opText, []byte(`{"type":"connection_init"}`)); err != nil {
		return err
	}
	return s.until("connection_ack")
}

// send sends a message that is not there yet and waits until it is stored; at is when that was answered.
func (s *socket) send() (at time.Time, err error) {
	s.sent++
	if s.sent%64 == 1 { // a deadline for each would cost more than it is worth
		if err := s.conn.SetDeadline(time.Now().Add(2 * answerLimit)); err != nil {
			return at, err
		}
	}
	id := strconv.Itoa(s.sent)
	m := append(s.out[:0], `{"id":"`...)
	m = append(m, id...)
	m = append(m, `","type":"subscribe","payload":{"query":"`+sendMessage+`","variables":{"i":{"chatRoomId":"`...)
	m = append(m, s.room...)
	m = append(m, `","user":"`...)
	m = append(m, s.name...)
	m = append(m, `","clientId":"`...)
	m = append(m, s.name...)
	m = append(m, '-')
	m = append(m, id...)
	m = append(m, `","text":"`+text+`"}}}}`...)
	s.out = m
	if err := s.write(opText, m); err != nil {
		return at, fmt.Errorf("send: %w", err)
	}
	if err := s.until(`"SendMessageSuccess"`); err != nil {
		return at, fmt.Errorf("send: %w", err)
	}
	at = time.Now()
	return at, s.until(`"complete"`)
}

// Opcodes of RFC 6455.
const (
	opText = 1
	opPing = 9
	opPong = 10
)

// write writes a frame with a mask of zeros.
func (s *socket) write(op byte, payload []byte) error {
	b := append(make([]byte, 0, len(payload)+8), 0x80|op)
	if len(payload) < 126 {
		b = append(b, 0x80|byte(len(payload)))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(len(payload)))
	}
	_, err := s.conn.Write(append(append(b, 0, 0, 0, 0), payload...))
	return err
}

// until reads up to the message that holds a word. Pings are answered; anything else is a fault.
func (s *socket) until(word string) error {
	for {
		op, err := s.read()
		switch {
		case err != nil:
			return err
		case op == opPing:
			err = s.write(opPong, s.got)
		case op == opText && bytes.Contains(s.got, []byte(word)):
			return nil
		case op == opText && bytes.Equal(s.got, []byte(`{"type":"ping"}`)):
			err = s.write(opText, []byte(`{"type":"pong"}`))
		default:
			err = fmt.Errorf("the server says %.400q", s.got)
		}
		if err != nil {
			return err
		}
	}
}

// read reads a frame into got.
func (s *socket) read() (op byte, err error) {
	head, err := s.in.Peek(2)
	if err != nil {
		return 0, err
	}
	op, n, skip := head[0]&15, int(head[1]), 2
	if n == 126 {
		if head, err = s.in.Peek(4); err != nil {
			return 0, err
		}
		n, skip = int(binary.BigEndian.Uint16(head[2:])), 4
	}
	if n >= 126 && skip == 2 {
		return 0, fmt.Errorf("a frame of more than 64 KiB")
	}
	if _, err := s.in.Discard(skip); err != nil {
		return 0, err
	}
	s.got = append(s.got[:0], make([]byte, n)...)
	_, err = io.ReadFull(s.in, s.got)
	return op, err
}
