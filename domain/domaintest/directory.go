package domaintest

import (
	"context"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

// directory is the room list. It answers on every instance, also while locked.
type directory struct{ h *Home }

func (d directory) enter(ctx context.Context, op Op) error {
	if f := d.h.fault(ctx, op); f != nil {
		return f.Err
	}
	d.h.w.mu.Lock()
	return nil
}

func (d directory) leave() { d.h.w.mu.Unlock() }

func (d directory) ChatRoom(ctx context.Context, id uuid.UUID) (domain.ChatRoomInfo, error) {
	if err := d.enter(ctx, OpDirectoryRoom); err != nil {
		return domain.ChatRoomInfo{}, err
	}
	defer d.leave()
	r := d.h.w.rooms[id]
	if r == nil {
		return domain.ChatRoomInfo{}, &domain.UnknownChatRoomError{ID: id}
	}
	return r.state.Info, nil
}

func (d directory) ChatRooms(ctx context.Context, after domain.Serial, limit int) ([]domain.ListedRoom, bool, error) {
	if err := d.enter(ctx, OpDirectoryRooms); err != nil {
		return nil, false, err
	}
	defer d.leave()
	list := d.h.w.list
	list = list[min(max(int(after), 0), len(list)):]
	more := len(list) > limit
	list = list[:min(limit, len(list))]
	rooms := make([]domain.ListedRoom, len(list))
	for i, r := range list {
		rooms[i] = domain.ListedRoom{Serial: r.listed, Info: r.state.Info}
	}
	return rooms, more, nil
}

func (d directory) Resolve(ctx context.Context, c domain.ListCursor) (domain.Serial, error) {
	if err := d.enter(ctx, OpDirectoryResolve); err != nil {
		return 0, err
	}
	defer d.leave()
	list := d.h.w.list
	ok := c.Home == d.h.w.home && c.Serial >= 0 && int(c.Serial) <= len(list)
	if ok && c.Serial == 0 {
		ok = c.Hash == 0
	} else if ok {
		ok = c.Hash == domain.RoomHash(list[c.Serial-1].state.Info.ID)
	}
	if ok {
		return c.Serial, nil
	}
	e := &domain.CursorOutOfRangeError{}
	if n := len(list); n > 0 {
		newest := list[n-1]
		e.Oldest = domain.ListCursor{Home: d.h.w.home}.String()
		e.Newest = domain.ListCursor{Home: d.h.w.home, Serial: newest.listed, Hash: domain.RoomHash(newest.state.Info.ID)}.String()
	}
	return 0, e
}

func (d directory) Cursor(r domain.ListedRoom) domain.ListCursor {
	c := domain.ListCursor{Home: d.h.Home(), Serial: r.Serial}
	if r.Serial > 0 {
		c.Hash = domain.RoomHash(r.Info.ID)
	}
	return c
}

func (d directory) Feed() domain.Feed { return d.h.w.listFeed }
