package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/test/chat"
)

const (
	pace      = 10 * time.Millisecond // between two messages to a room, and so the resolution
	retryWait = 5 * time.Millisecond  // before the other instance is asked
	patience  = time.Second           // for one answer
)

// sender writes to one room, at whichever instance serves it, and notes when and where messages were stored. What is
// not answered is sent again with the same client id.
type sender struct {
	urls []string
	room uuid.UUID

	mu     sync.Mutex
	stored []stored
}

// stored is one message that was acknowledged.
type stored struct {
	at       time.Time
	instance int
}

// run sends until ctx ends.
func (s *sender) run(ctx context.Context) error {
	var socket *chat.Socket
	defer func() {
		if socket != nil {
			socket.Close()
		}
	}()
	at := 0
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := 1; ctx.Err() == nil; {
		err := error(nil)
		if socket == nil {
			dctx, cancel := context.WithTimeout(ctx, patience)
			socket, err = chat.Dial(dctx, s.urls[at])
			cancel()
		}
		if err == nil {
			err = s.send(ctx, socket, n)
		}
		if err == nil {
			n++
			s.mu.Lock()
			s.stored = append(s.stored, stored{time.Now(), at})
			s.mu.Unlock()
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
			continue
		}
		var told *chat.Error
		if errors.As(err, &told) && told.Extensions.Code != "SHARD_NOT_OWNED" && told.Extensions.Code != "OUTCOME_UNKNOWN" {
			return fmt.Errorf("send to %s: %w", s.urls[at], err)
		}
		if socket != nil {
			socket.Close()
			socket = nil
		}
		at = (at + 1) % len(s.urls)
		select {
		case <-time.After(retryWait):
		case <-ctx.Done():
		}
	}
	return nil
}

func (s *sender) send(ctx context.Context, socket *chat.Socket, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var out struct {
		SendMessage struct {
			Typename string `json:"__typename"`
		} `json:"sendMessage"`
	}
	err := socket.Do(ctx, sendMessage, map[string]any{"i": map[string]any{
		"chatRoomId": s.room, "user": "sender", "clientId": fmt.Sprint(n), "text": text,
	}}, &out)
	if err == nil && out.SendMessage.Typename != "SendMessageSuccess" {
		err = errors.New(out.SendMessage.Typename)
	}
	return err
}

// since are the messages stored from a moment on, and the last one before.
func (s *sender) since(t time.Time) []stored {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.stored) - 1; i >= 0; i-- {
		if s.stored[i].at.Before(t) {
			return append([]stored(nil), s.stored[i:]...)
		}
	}
	return append([]stored(nil), s.stored...)
}

// silence is the longest time without a stored message from a moment on, and whether another instance ended it.
func (s *sender) silence(from time.Time) (longest time.Duration, moved bool) {
	list := s.since(from)
	for i := 1; i < len(list); i++ {
		if d := list[i].at.Sub(list[i-1].at); d > longest {
			longest, moved = d, list[i].instance != list[i-1].instance
		}
	}
	return longest, moved
}
