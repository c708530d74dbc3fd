package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// target is a server that is measured.
type target struct {
	name         string
	addr         string
	socketPath   string
	socketHeader string
	room         string
	pong         []byte
	cmd          *exec.Cmd
	stats        bool // has /stats

	subscribe  func(cursor string) [][2]string // message and what its answer contains
	serialAt   func(m []byte, text int) int64
	isPing     func(m []byte) bool
	openWriter func(*writer) error
	send       func(w *writer, text string, sequence int64) error
}

const (
	subscriptionDocument = `subscription S($room: ID!, $after: String, $last: Int) { messages(chatRoomId: $room, after: $after, last: $last) { edges { cursor node { id clientId user sentAt serial text } } endCursor live } }`
	mutationDocument     = `mutation M($i: SendMessageInput!) { sendMessage(input: $i) { __typename ... on SendMessageSuccess { message { id serial } duplicate } } }`
)

// startChathome starts the program with its data in dir, or this one as a server over a home in memory.
func startChathome(program, dir string) (*target, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	t := &target{name: "chathome", addr: addr, socketPath: "/graphql", socketHeader: "Sec-WebSocket-Protocol: graphql-transport-ws\r\n", pong: []byte(`{"type":"pong"}`)}
	if program == "memory" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		t.name, t.stats = "chathome (memory)", true
		t.cmd = exec.Command(self, "memory-server", addr)
	} else {
		t.cmd = exec.Command(program, "serve", "--listen", addr, "--data-dir", dir, "--shards", "1", "--log-level", "warn")
	}
	if err := t.start(); err != nil {
		return nil, err
	}
	t.isPing = func(m []byte) bool { return len(m) < 64 && bytes.Contains(m, []byte(`"type":"ping"`)) }
	t.subscribe = func(cursor string) [][2]string {
		start := `"last":0`
		if cursor != "" {
			start = `"after":` + quote(cursor)
		}
		return [][2]string{
			{`{"type":"connection_init"}`, `connection_ack`},
			{`{"id":"1","type":"subscribe","payload":{"query":` + quote(subscriptionDocument) + `,"variables":{"room":` + quote(t.room) + `,` + start + `}}}`, `"next"`},
		}
	}
	t.serialAt = func(m []byte, text int) int64 {
		end := text - len(`","text":"`)
		begin := end
		for begin > 0 && m[begin-1] >= '0' && m[begin-1] <= '9' {
			begin--
		}
		return number(m[begin:max(begin, end)])
	}
	t.openWriter = func(*writer) error { return nil }
	t.send = func(w *writer, text string, sequence int64) error {
		b, err := w.post(`{"query":` + quote(mutationDocument) + `,"variables":{"i":{"chatRoomId":"` + t.room + `","user":"load","clientId":"` + runID + `-` + strconv.FormatInt(sequence, 10) + `","text":"` + text + `"}}}`)
		if err == nil && !bytes.Contains(b, []byte(`"SendMessageSuccess"`)) {
			err = fmt.Errorf("send: %.300s", b)
		}
		return err
	}
	return t, t.createRoom()
}

// createRoom tries until the gate is open.
func (t *target) createRoom() error {
	var last error
	for range 150 {
		w, err := newWriter(t)
		if err != nil {
			return err
		}
		b, err := w.post(`{"query":"mutation { createChatRoom(input: {name: \"load\"}) { ... on CreateChatRoomSuccess { chatRoom { id } } } }"}`)
		_ = w.c.Close()
		var r struct {
			Data struct {
				CreateChatRoom struct{ ChatRoom struct{ ID string } }
			}
		}
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		if t.room = r.Data.CreateChatRoom.ChatRoom.ID; t.room != "" {
			return nil
		}
		last = fmt.Errorf("create a room: %.300s %w", b, err)
		time.Sleep(100 * time.Millisecond)
	}
	return last
}

// startCentrifugo starts a program of Centrifugo, v6.
func startCentrifugo(program, dir string) (*target, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	config := `{"http_server":{"address":"127.0.0.1","port":` + port + `},"log":{"level":"error"},"client":{"insecure":true},
"channel":{"without_namespace":{"allow_subscribe_for_client":true,"allow_publish_for_client":true,"history_size":10000,"history_ttl":"600s"}}}`
	file := filepath.Join(dir, "centrifugo.json")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, fmt.Errorf("configure Centrifugo: %w", err)
	}
	t := &target{name: "Centrifugo", addr: addr, socketPath: "/connection/websocket", pong: []byte("{}"), cmd: exec.Command(program, "--config", file)}
	if err := t.start(); err != nil {
		return nil, err
	}
	t.isPing = func(m []byte) bool { // alone or behind others in one frame
		return bytes.Equal(m, []byte("{}")) || bytes.HasSuffix(m, []byte("\n{}")) || bytes.Contains(m, []byte("\n{}\n")) || bytes.HasPrefix(m, []byte("{}\n"))
	}
	t.subscribe = func(string) [][2]string {
		return [][2]string{
			{`{"id":1,"connect":{}}`, `"connect":`},
			{`{"id":2,"subscribe":{"channel":"room"}}`, `"subscribe":`},
		}
	}
	t.serialAt = func(m []byte, text int) int64 {
		const name = `"offset":`
		k := bytes.Index(m[text:], []byte(name))
		if k < 0 {
			return 0
		}
		return number(m[text+k+len(name):])
	}
	t.openWriter = func(w *writer) error {
		_, err := fmt.Fprintf(w.c, "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n", t.socketPath, t.addr)
		if err != nil {
			return fmt.Errorf("writer: %w", err)
		}
		r, err := http.ReadResponse(w.br, nil)
		if err != nil || r.StatusCode != http.StatusSwitchingProtocols {
			return fmt.Errorf("writer: no upgrade: %w", err)
		}
		if _, err := w.c.Write(frame(opText, []byte(`{"id":1,"connect":{}}`))); err != nil {
			return fmt.Errorf("writer: %w", err)
		}
		return w.until(`"connect":`)
	}
	t.send = func(w *writer, text string, _ int64) error {
		w.id++
		if _, err := w.c.Write(frame(opText, fmt.Appendf(nil, `{"id":%d,"publish":{"channel":"room","data":"%s"}}`, w.id+10, text))); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
		return w.until(`"publish":`)
	}
	return t, nil
}

// buildCentrifugo builds the version that is compared with, outside of this module.
func buildCentrifugo(ctx context.Context, dir string) (string, error) {
	const module = "github.com/centrifugal/centrifugo/v6@v6.9.1"
	build := exec.CommandContext(ctx, "go", "install", module)
	build.Dir = dir
	build.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=-mod=mod")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", module, err)
	}
	return filepath.Join(dir, "centrifugo"), nil
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().String(), l.Close()
}

func (t *target) start() error {
	t.cmd.Stderr = os.Stderr
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := t.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", t.name, err)
	}
	for range 200 {
		if c, err := net.Dial("tcp", t.addr); err == nil {
			return c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.Join(fmt.Errorf("%s does not listen on %s", t.name, t.addr), t.stop())
}

func (t *target) stop() error {
	_ = t.cmd.Process.Signal(syscall.SIGTERM)
	done := make(chan error, 1)
	go func() { done <- t.cmd.Wait() }()
	select {
	case <-done: // Centrifugo's own code is its own affair
	case <-time.After(15 * time.Second):
		_ = t.cmd.Process.Kill()
		<-done
	}
	return nil
}

// again starts it anew, after stop, and waits until it is ready.
func (t *target) again() error {
	t.cmd = exec.Command(t.cmd.Path, t.cmd.Args[1:]...)
	if err := t.start(); err != nil {
		return err
	}
	for range 600 {
		r, err := http.Get("http://" + t.addr + "/readyz")
		if err != nil {
			return fmt.Errorf("ask whether it is ready: %w", err)
		}
		_ = r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("%s is not ready", t.name)
}

func (t *target) pid() int { return t.cmd.Process.Pid }
