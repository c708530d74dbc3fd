package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"syscall"
)

// socket is a raw TCP socket that Go's poller does not know.
type socket int

// from: servers limit connections of one address, so each crowd has its own.
func dial(addr string, from [4]byte) (socket, error) {
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().IsLoopback() || !at.Addr().Is4() {
		return 0, fmt.Errorf("dial %s: only IPv4 loopback", addr)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: from}); err != nil {
		_ = syscall.Close(fd)
		return 0, fmt.Errorf("bind to %v: %w", from, err)
	}
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}); err != nil {
		_ = syscall.Close(fd)
		return 0, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return socket(fd), nil
}

func (s socket) Read(b []byte) (int, error) {
	n, err := syscall.Read(int(s), b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return max(n, 0), err
}

func (s socket) Write(b []byte) (int, error) { return syscall.Write(int(s), b) }

func (s socket) Close() error { return syscall.Close(int(s)) }

// Opcodes of RFC 6455.
const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
)

// frame makes a masked client frame.
func frame(op byte, p []byte) []byte {
	out := append(make([]byte, 0, len(p)+14), 0x80|op)
	switch n := len(p); {
	case n < 126:
		out = append(out, 0x80|byte(n))
	case n < 65536:
		out = append(out, 0x80|126, byte(n>>8), byte(n))
	default:
		out = binary.BigEndian.AppendUint64(append(out, 0x80|127), uint64(n))
	}
	var m [4]byte
	_, _ = rand.Read(m[:])
	out = append(out, m[:]...)
	for i, c := range p {
		out = append(out, c^m[i&3])
	}
	return out
}

// parseFrame gives the first whole frame in b and its length; 0: it is not whole yet.
func parseFrame(b []byte) (op byte, p []byte, used int) {
	if len(b) < 2 {
		return 0, nil, 0
	}
	n, h := int(b[1]&127), 2
	switch n {
	case 126:
		if len(b) < 4 {
			return 0, nil, 0
		}
		n, h = int(binary.BigEndian.Uint16(b[2:])), 4
	case 127:
		if len(b) < 10 {
			return 0, nil, 0
		}
		n, h = int(binary.BigEndian.Uint64(b[2:])), 10
	}
	if len(b) < h+n {
		return 0, nil, 0
	}
	return b[0] & 15, b[h : h+n], h + n
}
