package model

import "github.com/chathome/chathome/domain"

// CreateChatRoomInput is the schema's CreateChatRoomInput.
type CreateChatRoomInput struct {
	Name string
	ID   *string
}

// SendMessageInput is the schema's SendMessageInput.
type SendMessageInput struct {
	ChatRoomID string
	User       string
	ClientID   string
	Text       string
}

// CreateChatRoomResult is the schema's union.
type CreateChatRoomResult interface{ IsCreateChatRoomResult() }

// SendMessageResult is the schema's union.
type SendMessageResult interface{ IsSendMessageResult() }

// UserError is the schema's interface of all outcomes that the client has to do something about.
type UserError interface{ IsUserError() }

// CreateChatRoomSuccess is the schema's CreateChatRoomSuccess.
type CreateChatRoomSuccess struct {
	ChatRoom  *ChatRoom
	Duplicate bool
}

// SendMessageSuccess is the schema's SendMessageSuccess.
type SendMessageSuccess struct {
	Stored    MessageEdge
	Duplicate bool
}

// Message is the message as it is stored.
func (s *SendMessageSuccess) Message() *Message { return &s.Stored.Message }

// Edge is the message with its cursor.
func (s *SendMessageSuccess) Edge() *MessageEdge { return &s.Stored }

// ChatRoomMutation is the schema's ChatRoomMutation.
type ChatRoomMutation struct {
	Reason   string
	Existing *ChatRoom
}

// MessageMutation is the schema's MessageMutation.
type MessageMutation struct {
	Reason   string
	Existing *Message
}

// UnknownChatRoom is the schema's UnknownChatRoom.
type UnknownChatRoom struct {
	Reason     string
	ChatRoomID string
}

// InvalidInput is the schema's InvalidInput.
type InvalidInput struct {
	Reason string
	Fields []InvalidField
}

// InvalidField is the schema's InvalidField.
type InvalidField struct{ Fault domain.InvalidField }

// Field is the name of the input field.
func (f *InvalidField) Field() string { return f.Fault.Field }

// Rule is the name of the broken rule.
func (f *InvalidField) Rule() string { return f.Fault.Rule }

// Limit is nil for rules without one.
func (f *InvalidField) Limit() *int32 {
	if f.Fault.Limit == 0 {
		return nil
	}
	limit := int32(f.Fault.Limit)
	return &limit
}

// Actual is a measure or a position, nil for rules that have neither.
func (f *InvalidField) Actual() *int32 {
	switch f.Fault.Rule {
	case domain.RuleMaxBytes, domain.RuleMaxCharacters, domain.RuleControl, domain.RuleBidi, domain.RulePrintableASCII:
		actual := int32(f.Fault.Actual)
		return &actual
	}
	return nil
}

func (*CreateChatRoomSuccess) IsCreateChatRoomResult() {}
func (*ChatRoomMutation) IsCreateChatRoomResult()      {}
func (*InvalidInput) IsCreateChatRoomResult()          {}

func (*SendMessageSuccess) IsSendMessageResult() {}
func (*MessageMutation) IsSendMessageResult()    {}
func (*UnknownChatRoom) IsSendMessageResult()    {}
func (*InvalidInput) IsSendMessageResult()       {}

func (*ChatRoomMutation) IsUserError() {}
func (*MessageMutation) IsUserError()  {}
func (*UnknownChatRoom) IsUserError()  {}
func (*InvalidInput) IsUserError()     {}
