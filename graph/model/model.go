// Package model holds the Go types behind the schema: views of the domain's values that gqlgen reads from. They
// decide nothing and ask nobody; what passes the gate is a resolver in package graph.
package model

import (
	"github.com/chathome/chathome/domain"
)

// ChatRoom is the schema's ChatRoom.
type ChatRoom struct{ Info domain.ChatRoomInfo }

// ID is the room's uuid.
func (r *ChatRoom) ID() string { return r.Info.ID.String() }

// Name is the room's name.
func (r *ChatRoom) Name() string { return r.Info.Name }

// Shard is the shard's number.
func (r *ChatRoom) Shard() int32 { return int32(r.Info.Shard) }

// CreatedAt is the time of creation.
func (r *ChatRoom) CreatedAt() domain.Millis { return r.Info.CreatedAt }

// Message is the schema's Message.
type Message struct {
	Stored *domain.Message
	Room   domain.Room
}

// ID is unique over all rooms.
func (m *Message) ID() string {
	return MessageID{Room: m.Stored.Room, Serial: m.Stored.Serial}.String()
}

// ClientID is the client's own id.
func (m *Message) ClientID() string { return m.Stored.ClientID }

// User is who says to have sent it.
func (m *Message) User() string { return m.Stored.User }

// Text is the text, byte for byte.
func (m *Message) Text() string { return m.Stored.Text }

// Serial is its number in the room.
func (m *Message) Serial() domain.Serial { return m.Stored.Serial }

// SentAt is when it was accepted.
func (m *Message) SentAt() domain.Millis { return m.Stored.SentAt }

// ChatRoom is the room that it was sent to.
func (m *Message) ChatRoom() *ChatRoom { return &ChatRoom{Info: m.Room.Info()} }

// MessageEdge is the schema's MessageEdge.
type MessageEdge struct{ Message Message }

// Cursor is the position behind the message.
func (e *MessageEdge) Cursor() string { return e.Message.Room.Cursor(e.Message.Stored).String() }

// Node is the message.
func (e *MessageEdge) Node() *Message { return &e.Message }

// MessageEdges are edges of messages that lie side by side: one allocation for all of them.
func MessageEdges(room domain.Room, messages []domain.Message) []MessageEdge {
	edges := make([]MessageEdge, len(messages))
	for i := range messages {
		edges[i] = MessageEdge{Message{Stored: &messages[i], Room: room}}
	}
	return edges
}

// MessageConnection is the schema's MessageConnection.
type MessageConnection struct {
	Edges    []MessageEdge
	PageInfo *PageInfo
}

// MessageBatch is the schema's MessageBatch.
type MessageBatch struct {
	Edges []MessageEdge
	End   domain.Cursor
	Live  bool
}

// EndCursor is where the batch ends.
func (b *MessageBatch) EndCursor() string { return b.End.String() }

// ChatRoomEdge is the schema's ChatRoomEdge.
type ChatRoomEdge struct {
	Position domain.ListCursor
	Room     ChatRoom
}

// Cursor is the position behind the room.
func (e *ChatRoomEdge) Cursor() string { return e.Position.String() }

// Node is the room.
func (e *ChatRoomEdge) Node() *ChatRoom { return &e.Room }

// ChatRoomEdges are the edges of rooms of the list.
func ChatRoomEdges(list domain.Directory, rooms []domain.ListedRoom) []ChatRoomEdge {
	edges := make([]ChatRoomEdge, len(rooms))
	for i, r := range rooms {
		edges[i] = ChatRoomEdge{Position: list.Cursor(r), Room: ChatRoom{Info: r.Info}}
	}
	return edges
}

// ChatRoomConnection is the schema's ChatRoomConnection.
type ChatRoomConnection struct {
	Edges    []ChatRoomEdge
	PageInfo *PageInfo
}

// ChatRoomBatch is the schema's ChatRoomBatch.
type ChatRoomBatch struct {
	Edges []ChatRoomEdge
	End   domain.ListCursor
	Live  bool
}

// EndCursor is where the batch ends.
func (b *ChatRoomBatch) EndCursor() string { return b.End.String() }

// PageInfo is the schema's PageInfo.
type PageInfo struct {
	HasNextPage     bool
	HasPreviousPage bool
	StartCursor     *string
	EndCursor       *string
}

// Node is the schema's interface Node.
type Node interface{ IsNode() }

// IsNode makes it a Node.
func (*ChatRoom) IsNode() {}

// IsNode makes it a Node.
func (*Message) IsNode() {}
