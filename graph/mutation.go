package graph

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph/model"
	"github.com/chathome/chathome/graph/stream"
)

// CreateChatRoom draws an id where the client has none. Every error tells the id, so that a retry is the same
// wish.
func (r mutation) CreateChatRoom(ctx context.Context, input model.CreateChatRoomInput) (result model.CreateChatRoomResult, err error) {
	var id uuid.UUID
	var faults []domain.InvalidField
	if input.ID != nil {
		var ok bool
		if id, ok = domain.ParseRoomID(*input.ID); !ok {
			faults = append(faults, domain.InvalidField{Field: "id", Rule: domain.RuleUUID})
		}
	}
	faults = faultsOf(faults, domain.ValidateRoomName(input.Name))
	if len(faults) > 0 {
		return invalidInput(faults), nil
	}
	if input.ID == nil {
		id = r.home.DrawChatRoomID()
	}
	defer func() {
		if v := recover(); v != nil {
			err = &stream.PanicError{Value: v, Stack: debug.Stack()}
		}
		if err != nil {
			result, err = nil, &roomError{id: id, err: err}
		}
	}()
	info, duplicate, err := r.home.CreateChatRoom(ctx, id, input.Name)
	if err == nil {
		return &model.CreateChatRoomSuccess{ChatRoom: &model.ChatRoom{Info: info}, Duplicate: duplicate}, nil
	}
	if e, ok := errors.AsType[*domain.ChatRoomMutationError](err); ok {
		return &model.ChatRoomMutation{
			Reason:   "A chat room with this id exists under another name. Nothing was written. Use the existing room, or another id.",
			Existing: &model.ChatRoom{Info: e.Existing},
		}, nil
	}
	if e, ok := errors.AsType[*domain.InvalidInputError](err); ok {
		return invalidInput(e.Fields), nil
	}
	return nil, err
}

// SendMessage names every fault of the input before it asks anybody.
func (r mutation) SendMessage(ctx context.Context, input model.SendMessageInput) (model.SendMessageResult, error) {
	draft := domain.Draft{User: input.User, ClientID: input.ClientID, Text: input.Text}
	id, ok := domain.ParseRoomID(input.ChatRoomID)
	invalid := draft.Validate()
	if !ok || invalid != nil {
		var faults []domain.InvalidField
		if !ok {
			faults = append(faults, domain.InvalidField{Field: "chatRoomId", Rule: domain.RuleUUID})
		}
		return invalidInput(faultsOf(faults, invalid)), nil
	}
	room, err := r.gate(ctx, id)
	if err != nil {
		return refused(nil, err)
	}
	m, duplicate, err := room.Send(ctx, draft)
	if err != nil {
		return refused(room, err)
	}
	return &model.SendMessageSuccess{
		Stored:    model.MessageEdge{Message: model.Message{Stored: &m, Room: room}},
		Duplicate: duplicate,
	}, nil
}

// refused tells outcomes of the domain, which are data, from faults of the service, which are errors.
func refused(room domain.Room, err error) (model.SendMessageResult, error) {
	if e, ok := errors.AsType[*domain.MessageMutationError](err); ok {
		return &model.MessageMutation{
			Reason:   "A message with this user and clientId is stored with another text. Nothing was written. Use a new clientId for a new message.",
			Existing: messageOf(room, &e.Existing),
		}, nil
	}
	if e, ok := errors.AsType[*domain.UnknownChatRoomError](err); ok {
		return &model.UnknownChatRoom{
			Reason:     "There is no chat room with this id. Nothing was written. Create the room first, or correct the id.",
			ChatRoomID: e.ID.String(),
		}, nil
	}
	if e, ok := errors.AsType[*domain.InvalidInputError](err); ok {
		return invalidInput(e.Fields), nil
	}
	return nil, err
}

// faultsOf appends the fields that err names.
func faultsOf(faults []domain.InvalidField, err error) []domain.InvalidField {
	if e, ok := errors.AsType[*domain.InvalidInputError](err); ok {
		return append(faults, e.Fields...)
	}
	return faults
}

func invalidInput(faults []domain.InvalidField) *model.InvalidInput {
	fields := make([]model.InvalidField, len(faults))
	for i, f := range faults {
		fields[i] = model.InvalidField{Fault: f}
	}
	return &model.InvalidInput{
		Reason: "The input breaks the rules that fields names. Nothing was written. Correct these fields and send it again.",
		Fields: fields,
	}
}
