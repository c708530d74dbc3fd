package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chathome/chathome/domain"
)

// create makes a room in the middle of everything. Once that is answered, every instance must know it.
func (c *writer) create() {
	id, name := randomUUID(c.r), fmt.Sprintf("%s made %d", c.name, c.count)
	for range 20 {
		if c.era.lost.Load() {
			return
		}
		n := c.w.nodes[c.r.IntN(len(c.w.nodes))]
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+c.r.IntN(5000))*time.Millisecond)
		var info domain.ChatRoomInfo
		_, err := n.call(ctx, func(ctx context.Context, l *life) (err error) {
			info, _, err = l.home.CreateChatRoom(ctx, id, name)
			return err
		})
		cancel()
		if err == nil {
			c.w.mu.Lock()
			c.era.created = append(c.era.created, info)
			c.w.mu.Unlock()
			c.know(info)
			return
		}
		var mutation *domain.ChatRoomMutationError
		if errors.As(err, &mutation) && !c.era.lost.Load() {
			c.w.violated("a room that nobody made", "%s was told of an existing room named %q", c.name, mutation.Existing.Name)
		}
		time.Sleep(time.Duration(20+c.r.IntN(300)) * time.Millisecond)
	}
}

// know asks some instance for a room that exists.
func (c *writer) know(room domain.ChatRoomInfo) {
	n := c.w.nodes[c.r.IntN(len(c.w.nodes))]
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var info domain.ChatRoomInfo
	l, err := n.call(ctx, func(ctx context.Context, l *life) (err error) {
		info, err = l.home.Directory().ChatRoom(ctx, room.ID)
		return err
	})
	var unknown *domain.UnknownChatRoomError
	switch {
	case c.era.lost.Load():
	case errors.As(err, &unknown):
		c.w.violated("an unknown room", "%s was told by %s that %s does not exist, which was made before", c.name, l.self.URL, room.Name)
	case err == nil && info != room:
		c.w.violated("an unknown room", "%s was told by %s that %+v is %+v", c.name, l.self.URL, room, info)
	}
}

// find looks up a message that is stored by the client's own id.
func (c *writer) find() {
	if len(c.sent) == 0 {
		return
	}
	m := c.earlier()
	n := c.at
	if n == nil {
		n = c.w.nodes[c.r.IntN(len(c.w.nodes))]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var got domain.Message
	found := false
	l, err := n.call(ctx, func(ctx context.Context, l *life) error {
		room, err := l.home.ChatRoom(ctx, c.room.Shard, c.room.ID)
		if err == nil {
			got, found, err = room.Message(ctx, c.name, m.id)
		}
		return err
	})
	if err == nil && (!found || got.Text != m.text) && !c.era.lost.Load() {
		c.w.violated("read your writes", "%s asked %s for its %s and got %t %q", c.name, l.self.URL, m.id, found, got.Text)
	}
}
