package domain

import (
	"context"

	"github.com/google/uuid"
)

// ChatHome is the house that all rooms live in, as one instance sees it.
//
// Methods that take a context return within its deadline. Errors are those of errors.go and rules.go, found
// with errors.As; any other error is a fault of the program.
type ChatHome interface {
	// ChatRoom is the gate: the one door to a room. While the shard is not open here it answers
	// *ShardNotOwnedError at once; nothing waits, nothing queues. *UnknownChatRoomError is certain.
	ChatRoom(ctx context.Context, shard ShardID, id uuid.UUID) (Room, error)

	// CreateChatRoom passes the gate too. It is idempotent in id and answers once every instance can learn
	// of the room. duplicate: it was there before. Errors: *ShardNotOwnedError, *OutcomeUnknownError,
	// *OverloadedError, *ChatRoomMutationError, *InvalidInputError.
	CreateChatRoom(ctx context.Context, id uuid.UUID, name string) (info ChatRoomInfo, duplicate bool, err error)

	// DrawChatRoomID draws an id whose shard is open here, or any where none is.
	DrawChatRoomID() uuid.UUID

	// ShardOf is the shard of a room, by the pinned shard count. ok is false until the count is known:
	// then every shard is locked.
	ShardOf(id uuid.UUID) (shard ShardID, ok bool)

	// Shards lists every shard as this instance sees it, in order of number.
	Shards() []ShardStatus

	// ShardsFeed advances whenever Shards would answer something else. Progress advances it too, at a
	// bounded rate.
	ShardsFeed() Feed

	// Directory answers on every instance, also while locked.
	Directory() Directory

	// Instance is this process.
	Instance() Instance

	// Home is the id of this life of the topics; the zero uuid until it is known.
	Home() uuid.UUID
}

// ShardStatus is one shard. NotOwned is what a request for it gets now; nil when open.
type ShardStatus struct {
	Shard    ShardID
	State    ShardState
	NotOwned *ShardNotOwnedError
}

// Feed is a stream to follow: a position that only grows, and a call after each advance. Two readers of the
// same stream get the identical Feed value; it is comparable and can key a map.
type Feed interface {
	// Tip is the newest position.
	Tip() Serial
	// Watch calls wake after each advance and after the end, until stop. wake must not block and must
	// not call back into the feed. It may be called once after stop.
	Watch(wake func()) (stop func())
	// Err is nil while the stream stands; afterwards it says why it ended, for ever the same. Check it
	// before an answer leaves: it includes the lease.
	Err() error
}

// Room is a loaded chat room behind the gate, valid for one tenure of its shard. When the tenure ends, every
// method answers *ShardNotOwnedError; pass the gate again.
type Room interface {
	Info() ChatRoomInfo

	// Send stores d. duplicate: it was stored before. Errors: *ShardNotOwnedError (not stored),
	// *OutcomeUnknownError, *OverloadedError (not stored), *MessageMutationError, *InvalidInputError.
	Send(ctx context.Context, d Draft) (m Message, duplicate bool, err error)

	// Message finds a message by its client's id. ok is false where there is none.
	Message(ctx context.Context, user, clientID string) (m Message, ok bool, err error)

	// Messages reads a part of the history.
	Messages(ctx context.Context, r Range) (Page, error)

	// Bounds are the serials of the oldest and newest message; oldest is newest+1 where there is none.
	Bounds(ctx context.Context) (oldest, newest Serial, err error)

	// Resolve turns a cursor into the serial to read behind. Errors: *BadCursorError (of another room),
	// *CursorOutOfRangeError.
	Resolve(ctx context.Context, c Cursor) (Serial, error)

	// Cursor is the position behind m.
	Cursor(m *Message) Cursor

	// CursorAt is the position behind serial, reading the message there for its hash.
	CursorAt(ctx context.Context, serial Serial) (Cursor, error)

	// Feed follows the room: Tip is the newest serial. It ends with the tenure.
	Feed() Feed
}

// Range selects messages with After < serial < Before in order of serial. Of more than Limit, those nearest
// to After are taken, or with FromEnd those nearest to Before.
type Range struct {
	After    Serial
	Before   Serial // 0: no bound
	Limit    int    // at least 1
	FromEnd  bool
	MaxBytes int // of text; 0: no bound. At least one message is returned where there is one.
}

// Page is a part of a history. HasPrevious and HasNext say whether the room holds messages before the first
// and after the last one of the page.
type Page struct {
	Messages             []Message
	HasPrevious, HasNext bool
}

// ListedRoom is a room in the order of first announcement, the same on all instances.
type ListedRoom struct {
	Serial Serial
	Info   ChatRoomInfo
}

// Directory is what every instance knows about all rooms.
type Directory interface {
	// ChatRoom answers *UnknownChatRoomError only after reading the directory to its present end; where it
	// cannot, *OverloadedError.
	ChatRoom(ctx context.Context, id uuid.UUID) (ChatRoomInfo, error)
	// ChatRooms lists rooms behind after, at most limit.
	ChatRooms(ctx context.Context, after Serial, limit int) (rooms []ListedRoom, more bool, err error)
	// Resolve turns a cursor of the list into the serial to read behind. *CursorOutOfRangeError where it is
	// of another life.
	Resolve(ctx context.Context, c ListCursor) (Serial, error)
	// Cursor is the position behind r.
	Cursor(r ListedRoom) ListCursor
	// Feed follows the list: Tip is the serial of the newest room.
	Feed() Feed
}
