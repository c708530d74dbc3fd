package graph

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph/model"
)

// ChatRoom asks the directory.
func (r query) ChatRoom(ctx context.Context, id string) (*model.ChatRoom, error) {
	room, err := roomID("id", id)
	if err != nil {
		return nil, err
	}
	return r.listed(ctx, room)
}

// listed is nil for a room that does not exist, for certain.
func (r *resolvers) listed(ctx context.Context, id uuid.UUID) (*model.ChatRoom, error) {
	info, err := r.home.Directory().ChatRoom(ctx, id)
	if _, unknown := errors.AsType[*domain.UnknownChatRoomError](err); unknown {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &model.ChatRoom{Info: info}, nil
}

// ChatRooms pages through the directory.
func (r query) ChatRooms(ctx context.Context, first *int32, after *string) (*model.ChatRoomConnection, error) {
	size, err := pageSize(first, nil)
	if err != nil {
		return nil, err
	}
	list := r.home.Directory()
	var from domain.Serial
	if after != nil {
		if from, err = resolveList(ctx, list, *after); err != nil {
			return nil, err
		}
	}
	// Even an empty page has to know whether something follows.
	rooms, more, err := list.ChatRooms(ctx, from, max(size.limit, 1))
	if err != nil {
		return nil, err
	}
	if size.limit == 0 {
		rooms, more = nil, len(rooms) > 0
	}
	edges := model.ChatRoomEdges(list, rooms)
	info := &model.PageInfo{HasPreviousPage: from > 0, HasNextPage: more}
	if n := len(edges); n > 0 {
		start, end := edges[0].Cursor(), edges[n-1].Cursor()
		info.StartCursor, info.EndCursor = &start, &end
	}
	return &model.ChatRoomConnection{Edges: edges, PageInfo: info}, nil
}

func resolveList(ctx context.Context, list domain.Directory, cursor string) (domain.Serial, error) {
	c, err := domain.ParseListCursor(cursor)
	if err != nil {
		return 0, err
	}
	return list.Resolve(ctx, c)
}

// Node tells a room from a message by the form of the id.
func (r query) Node(ctx context.Context, id string) (model.Node, error) {
	if room, ok := domain.ParseRoomID(id); ok {
		found, err := r.listed(ctx, room)
		if found == nil { // a nil *ChatRoom would be a Node
			return nil, err
		}
		return found, nil
	}
	m, ok := model.ParseMessageID(id)
	if !ok {
		return nil, badRequest("id must be what a field id of this API answered: a chat room's uuid or a message's id.")
	}
	room, err := r.gate(ctx, m.Room)
	if _, unknown := errors.AsType[*domain.UnknownChatRoomError](err); unknown {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	page, err := room.Messages(ctx, domain.Range{After: m.Serial - 1, Limit: 1})
	if err != nil || len(page.Messages) == 0 || page.Messages[0].Serial != m.Serial {
		return nil, err
	}
	return messageOf(room, &page.Messages[0]), nil
}

// Shards is what a progress bar starts with.
func (r query) Shards(context.Context) ([]model.Shard, error) {
	return model.ShardsOf(r.home.Shards()), nil
}

// Instance is this process.
func (r query) Instance(context.Context) (*model.Instance, error) {
	return model.InstanceOf(r.home.Instance()), nil
}

// Message passes the gate.
func (r chatRoom) Message(ctx context.Context, obj *model.ChatRoom, user, clientID string) (*model.Message, error) {
	room, err := r.gate(ctx, obj.Info.ID)
	if err != nil {
		return nil, err
	}
	m, ok, err := room.Message(ctx, user, clientID)
	if err != nil || !ok {
		return nil, err
	}
	return messageOf(room, &m), nil
}

// Messages passes the gate.
func (r chatRoom) Messages(ctx context.Context, obj *model.ChatRoom, first *int32, after *string, last *int32, before *string) (*model.MessageConnection, error) {
	size, err := pageSize(first, last)
	if err != nil {
		return nil, err
	}
	room, err := r.gate(ctx, obj.Info.ID)
	if err != nil {
		return nil, err
	}
	return messagePage(ctx, room, size, after, before)
}
