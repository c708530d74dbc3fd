package directory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
)

const (
	resourceDirectory = "directory"  // the topic cannot be read now
	resourceLocal     = "local data" // the store cannot be read now
	retryAfter        = 500 * time.Millisecond
)

func unreadable(resource string) error {
	return &domain.OverloadedError{Resource: resource, RetryAfter: retryAfter}
}

// ChatRoom implements domain.Directory.
func (d *Directory) ChatRoom(ctx context.Context, id uuid.UUID) (domain.ChatRoomInfo, error) {
	r, ok, err := d.room(id)
	for err == nil && !ok {
		epoch, cerr := d.catchUp(ctx, false)
		if cerr != nil {
			return domain.ChatRoomInfo{}, unreadable(resourceDirectory)
		}
		if r, ok, err = d.room(id); err == nil && !ok && d.viewEpoch() == epoch {
			return domain.ChatRoomInfo{}, &domain.UnknownChatRoomError{ID: id}
		}
	}
	if err != nil {
		return domain.ChatRoomInfo{}, unreadable(resourceLocal)
	}
	return r.Info, nil
}

// Listed answers from the local view alone: what it does not find may be known to others.
func (d *Directory) Listed(id uuid.UUID) (domain.ChatRoomInfo, bool) {
	r, ok, err := d.room(id)
	return r.Info, ok && err == nil
}

// Named is for an owner whose log lost a room's name. It asks nobody and waits for nothing: the view must have been read
// to an end of the topic since the time given, or it starts that reading and refuses with OverloadedError. ok is false
// where nobody has announced the room.
func (d *Directory) Named(id uuid.UUID, since time.Time) (info domain.ChatRoomInfo, ok bool, err error) {
	d.mu.Lock()
	epoch, sure := d.epoch, d.readAt.After(since)
	d.mu.Unlock()
	r, ok, err := d.room(id)
	switch {
	case err != nil:
		return domain.ChatRoomInfo{}, false, unreadable(resourceLocal)
	case ok:
		return r.Info, true, nil
	case sure && d.viewEpoch() == epoch:
		return domain.ChatRoomInfo{}, false, nil
	}
	d.ask(true, false)
	return domain.ChatRoomInfo{}, false, unreadable(resourceDirectory)
}

func (d *Directory) room(id uuid.UUID) (domain.ListedRoom, bool, error) {
	epoch := d.viewEpoch()
	r, ok, err := d.store.Room(id)
	return r, ok, d.noteLoss(epoch, err)
}

func (d *Directory) rooms(after domain.Serial, limit int) ([]domain.ListedRoom, error) {
	epoch := d.viewEpoch()
	rooms, err := d.store.Rooms(after, limit)
	return rooms, d.noteLoss(epoch, err)
}

func (d *Directory) viewEpoch() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.epoch
}

// ChatRooms implements domain.Directory. While the view is read again after a loss it waits, so that nobody sees the
// list shrink.
func (d *Directory) ChatRooms(ctx context.Context, after domain.Serial, limit int) ([]domain.ListedRoom, bool, error) {
	d.mu.Lock()
	whole := d.whole
	d.mu.Unlock()
	if !whole {
		if _, err := d.catchUp(ctx, false); err != nil {
			return nil, false, unreadable(resourceDirectory)
		}
	}
	rooms, err := d.rooms(after, limit+1)
	if err != nil {
		return nil, false, unreadable(resourceLocal)
	}
	if len(rooms) > limit {
		return rooms[:limit], true, nil
	}
	return rooms, false, nil
}

// Resolve implements domain.Directory. A cursor that this instance cannot place is judged only after reading the
// directory to its present end: another instance may be ahead of this one, even by a life.
func (d *Directory) Resolve(ctx context.Context, c domain.ListCursor) (domain.Serial, error) {
	for sure := false; ; sure = true {
		pos := d.position()
		if c.Serial == 0 && (c.Home == pos.Life.Home || c.Home == uuid.Nil) {
			return 0, nil
		}
		if c.Home == pos.Life.Home && c.Serial <= pos.Rooms {
			return d.place(c)
		}
		if sure {
			return 0, d.outOfRange()
		}
		if _, err := d.catchUp(ctx, c.Home != pos.Life.Home); err != nil {
			return 0, unreadable(resourceDirectory)
		}
	}
}

func (d *Directory) place(c domain.ListCursor) (domain.Serial, error) {
	rooms, err := d.rooms(c.Serial-1, 1)
	switch {
	case err != nil:
		return 0, unreadable(resourceLocal)
	case len(rooms) == 1 && rooms[0].Serial == c.Serial && domain.RoomHash(rooms[0].Info.ID) == c.Hash:
		return c.Serial, nil
	}
	return 0, d.outOfRange()
}

// outOfRange names what is there: the whole list, which starts before its first room.
func (d *Directory) outOfRange() error {
	pos := d.position()
	if pos.Rooms == 0 {
		return &domain.CursorOutOfRangeError{}
	}
	rooms, err := d.rooms(pos.Rooms-1, 1)
	if err != nil || len(rooms) == 0 {
		return unreadable(resourceLocal)
	}
	return &domain.CursorOutOfRangeError{
		Oldest: d.Cursor(domain.ListedRoom{}).String(),
		Newest: d.Cursor(rooms[0]).String(),
	}
}

// Cursor implements domain.Directory. The zero room gives the position before the first.
func (d *Directory) Cursor(r domain.ListedRoom) domain.ListCursor {
	c := domain.ListCursor{Home: d.Home(), Serial: r.Serial}
	if r.Serial > 0 {
		c.Hash = domain.RoomHash(r.Info.ID)
	}
	return c
}

// Feed implements domain.Directory. It ends with a *domain.CursorOutOfRangeError when another life has begun.
func (d *Directory) Feed() domain.Feed {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.feed
}
