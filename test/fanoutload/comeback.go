package main

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// comeBack lets a reader come for each cursor, the first one behind serial first-1, and all at once: each says
// everything that it has to say in one piece and then only reads, until it has the message newest. It returns when
// all have, or after a minute.
//
// One thread does that for all of them: a thousand that wait for the processor would be what others notice.
func (t *target) comeBack(cursors []string, first, newest int64) ([]*subscriber, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	defer func() { _ = syscall.Close(epoll) }()
	list := make([]*subscriber, 0, len(cursors))
	byFd := map[int32]*subscriber{}
	for i, cursor := range cursors {
		fd, err := dial(t.addr, [4]byte{127, 0, 0, 2})
		if err != nil {
			return list, err
		}
		s := &subscriber{fd: fd, last: first + int64(i)}
		list, byFd[int32(fd)] = append(list, s), s
		hello := []byte(t.handshake())
		for _, step := range t.subscribe(cursor) {
			hello = append(hello, frame(opText, []byte(step[0]))...)
		}
		if _, err := fd.Write(hello); err != nil {
			return list, fmt.Errorf("come back: %w", err)
		}
		_ = syscall.SetNonblock(int(fd), true)
		if err := syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, int(fd), &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}); err != nil {
			return list, fmt.Errorf("epoll: %w", err)
		}
	}
	buf := make([]byte, 1<<20)
	events := make([]syscall.EpollEvent, 256)
	faults, left := 0, len(list)
	for end := time.Now().Add(time.Minute); left > 0 && time.Now().Before(end); {
		k, err := syscall.EpollWait(epoll, events, 1000)
		if err != nil {
			continue
		}
		for _, e := range events[:k] {
			s := byFd[e.Fd]
			h := copy(buf, s.rest)
			n, err := s.fd.Read(buf[h:])
			if errors.Is(err, syscall.EAGAIN) {
				continue
			}
			if err != nil {
				return list, fmt.Errorf("come back: %w after %d messages", err, s.n)
			}
			b := buf[:h+n]
			if !s.open {
				head, rest, whole := bytes.Cut(b, []byte("\r\n\r\n"))
				if whole && !strings.Contains(string(head), " 101 ") {
					return list, fmt.Errorf("come back: %s", head)
				}
				if s.open = whole; whole {
					b = rest
				}
			}
			had := s.last >= newest
			for s.open {
				_, p, used := parseFrame(b)
				if used == 0 {
					break
				}
				b = b[used:]
				s.scan(t, p, func(_, _ int64, order int) {
					if order != 0 {
						faults++
					}
				})
			}
			s.rest = append(s.rest[:0], b...)
			if !had && s.last >= newest {
				left--
			}
		}
	}
	if faults > 0 {
		err = fmt.Errorf("come back: %d gaps or repeats", faults)
	}
	return list, err
}
