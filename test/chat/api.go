package chat

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/chathome/chathome/test/check"
)

const messageFields = `{ serial user clientId text sentAt chatRoom { id } }`

type wireMessage struct {
	Serial   string    `json:"serial"`
	User     string    `json:"user"`
	ClientID string    `json:"clientId"`
	Text     string    `json:"text"`
	SentAt   time.Time `json:"sentAt"`
	ChatRoom struct {
		ID uuid.UUID `json:"id"`
	} `json:"chatRoom"`
}

func (m *wireMessage) message() (check.Message, error) {
	serial, err := strconv.ParseInt(m.Serial, 10, 64)
	return check.Message{
		Room: m.ChatRoom.ID, Serial: serial, User: m.User, ClientID: m.ClientID, Text: m.Text, SentAt: m.SentAt.UnixMilli(),
	}, err
}

type edges []struct {
	Node wireMessage `json:"node"`
}

func (es edges) messages() ([]check.Message, error) {
	ms := make([]check.Message, len(es))
	for i := range es {
		var err error
		if ms[i], err = es[i].Node.message(); err != nil {
			return nil, err
		}
	}
	return ms, nil
}

const createQuery = `mutation($name: String!, $id: ID!) { createChatRoom(input: {name: $name, id: $id}) {
	__typename ... on CreateChatRoomSuccess { chatRoom { id shard } } ... on UserError { reason } } }`

// create makes a room; repeating it is safe.
func create(ctx context.Context, s *Socket, id uuid.UUID, name string) error {
	var out struct {
		CreateChatRoom struct {
			Typename string `json:"__typename"`
			Reason   string `json:"reason"`
		} `json:"createChatRoom"`
	}
	if err := s.Do(ctx, createQuery, map[string]any{"name": name, "id": id}, &out); err != nil {
		return err
	}
	if t := out.CreateChatRoom.Typename; t != "CreateChatRoomSuccess" {
		return fmt.Errorf("create a room: %s: %s", t, out.CreateChatRoom.Reason)
	}
	return nil
}

const sendQuery = `mutation($input: SendMessageInput!) { sendMessage(input: $input) { __typename
	... on SendMessageSuccess { duplicate message ` + messageFields + ` }
	... on MessageMutation { existing ` + messageFields + ` }
	... on UserError { reason } } }`

// send makes one attempt and says what was answered; err is for the caller's retry, nil after an answer of the
// domain.
func send(ctx context.Context, s *Socket, room uuid.UUID, user, clientID, text string) (out check.Send, err error) {
	var wire struct {
		SendMessage struct {
			Typename  string      `json:"__typename"`
			Duplicate bool        `json:"duplicate"`
			Message   wireMessage `json:"message"`
			Existing  wireMessage `json:"existing"`
			Reason    string      `json:"reason"`
		} `json:"sendMessage"`
	}
	out.Room, out.User, out.ClientID, out.Text = room, user, clientID, text
	err = s.Do(ctx, sendQuery, map[string]any{"input": map[string]any{
		"chatRoomId": room, "user": user, "clientId": clientID, "text": text,
	}}, &wire)
	if err != nil {
		out.Outcome = outcomeOf(err)
		return out, err
	}
	switch w := &wire.SendMessage; w.Typename {
	case "SendMessageSuccess":
		out.Outcome, out.Duplicate = check.Stored, w.Duplicate
		out.Message, err = w.Message.message()
	case "MessageMutation":
		out.Outcome = check.Mutation
		out.Message, err = w.Existing.message()
	default:
		out.Outcome, err = check.Refused, errors.New(w.Typename+": "+w.Reason)
	}
	return out, err
}

// outcomeOf is what an error says about a write. No answer says nothing.
func outcomeOf(err error) check.Outcome {
	var e *Error
	if !errors.As(err, &e) {
		return check.Unknown
	}
	switch e.Extensions.Code {
	case "SHARD_NOT_OWNED":
		return check.NotOwned
	case "OVERLOADED", "BAD_REQUEST", "RATE_LIMITED":
		return check.Refused
	}
	return check.Unknown
}

const pageQuery = `query($id: ID!, $first: Int, $after: String, $last: Int) { chatRoom(id: $id) {
	messages(first: $first, after: $after, last: $last) { edges { node ` + messageFields + ` } pageInfo { hasNextPage endCursor } } } }`

type page struct {
	messages []check.Message
	more     bool
	end      string
}

func readPage(ctx context.Context, s *Socket, vars map[string]any) (p page, err error) {
	var wire struct {
		ChatRoom *struct {
			Messages struct {
				Edges    edges `json:"edges"`
				PageInfo struct {
					HasNextPage bool   `json:"hasNextPage"`
					EndCursor   string `json:"endCursor"`
				} `json:"pageInfo"`
			} `json:"messages"`
		} `json:"chatRoom"`
	}
	if err := s.Do(ctx, pageQuery, vars, &wire); err != nil {
		return p, err
	}
	if wire.ChatRoom == nil {
		return p, errors.New("no such room")
	}
	m := &wire.ChatRoom.Messages
	p.more, p.end = m.PageInfo.HasNextPage, m.PageInfo.EndCursor
	p.messages, err = m.Edges.messages()
	return p, err
}

const followQuery = `subscription($id: ID!, $after: String) { messages(chatRoomId: $id, after: $after) {
	edges { node ` + messageFields + ` } endCursor live } }`

type batch struct {
	Messages struct {
		Edges     edges  `json:"edges"`
		EndCursor string `json:"endCursor"`
		Live      bool   `json:"live"`
	} `json:"messages"`
}

const shardsQuery = `subscription { shards { number state notOwned { owner { instance { id } } progress { ratio } } } }`

// Shard is a shard as an instance sees it.
type Shard struct {
	Number   int    `json:"number"`
	State    string `json:"state"`
	NotOwned *struct {
		Owner *struct {
			Instance struct {
				ID string `json:"id"`
			} `json:"instance"`
		} `json:"owner"`
		Progress *struct {
			Ratio float64 `json:"ratio"`
		} `json:"progress"`
	} `json:"notOwned"`
}

// Shards follows the states of all shards as the instance sees them, until the connection or ctx ends.
func (s *Socket) Shards(ctx context.Context, each func([]Shard)) error {
	return s.Run(ctx, shardsQuery, nil, func(r Result) error {
		if len(r.Errors) > 0 {
			return &r.Errors[0]
		}
		var wire struct {
			Shards []Shard `json:"shards"`
		}
		if err := unmarshal(r.Data, &wire); err != nil {
			return err
		}
		each(wire.Shards)
		return nil
	})
}
