package ws

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/jsonvalue"
)

// Types of messages (graphql-transport-ws, PROTOCOL.md of graphql-ws).
const (
	typeInit      = "connection_init"
	typeAck       = "connection_ack"
	typePing      = "ping"
	typePong      = "pong"
	typeSubscribe = "subscribe"
	typeNext      = "next"
	typeError     = "error"
	typeComplete  = "complete"
)

// maxID bounds an operation's id, which stands in every one of its frames. graphql-ws draws uuids.
const maxID = 256

// message is what a client may send.
type message struct {
	kind    string
	id      string          // subscribe, complete
	payload json.RawMessage // connection_init, ping, pong: an object, or nil where it is missing or null
	params  *graphql.RawParams
}

var errInvalid = errors.New("invalid message")

// parse takes one text message apart as strictly as graphql-ws does, and says no to anything else: the
// connection is closed with 4400 then. So it is for text that Go's decoder would have to change. payload is a part
// of b, all else is copied.
func parse(b []byte) (message, error) {
	if err := graph.CheckJSONText(b); err != nil {
		return message{}, fmt.Errorf("%w: %w", errInvalid, err)
	}
	var kind, id, payload, other json.RawMessage
	in := jsonvalue.NewReader(b)
	err := fields(&in, func(name []byte) *json.RawMessage {
		switch string(name) {
		case "type":
			return &kind
		case "id":
			return &id
		case "payload":
			return &payload
		}
		return &other
	})
	var m message
	if err != nil || !in.End() || !stringField(kind, &m.kind, false) {
		return message{}, errInvalid
	}
	ok := false
	switch m.kind {
	case typeInit, typePing, typePong:
		m.payload, ok = objectField(payload)
	case typeComplete:
		ok = idField(id, &m.id)
	case typeSubscribe:
		params, isObject := objectField(payload)
		if idField(id, &m.id) && isObject && params != nil {
			m.params, ok = parseParams(params)
		}
	}
	if !ok {
		return message{}, errInvalid
	}
	return m, nil
}

// fields reads an object: the value of each name goes where into says. Names are told apart by case; of one that
// stands there twice, the last counts.
func fields(in *jsonvalue.Reader, into func(name []byte) *json.RawMessage) error {
	return in.Object(func(name []byte) (err error) {
		to := into(name)
		*to, err = in.Raw()
		return err
	})
}

func parseParams(payload json.RawMessage) (*graphql.RawParams, bool) {
	var query, operation, variables, extensions, other json.RawMessage
	in := jsonvalue.NewReader(payload)
	err := fields(&in, func(name []byte) *json.RawMessage {
		switch string(name) {
		case "query":
			return &query
		case "operationName":
			return &operation
		case "variables":
			return &variables
		case "extensions":
			return &extensions
		}
		return &other
	})
	var p graphql.RawParams
	ok := err == nil &&
		stringField(query, &p.Query, false) &&
		stringField(operation, &p.OperationName, true) &&
		mapField(variables, &p.Variables) &&
		mapField(extensions, &p.Extensions)
	return &p, ok
}

// idField: a string that is not empty.
func idField(raw json.RawMessage, id *string) bool {
	return stringField(raw, id, false) && *id != "" && len(*id) <= maxID
}

// stringField: a string; optional: or null or missing.
func stringField(raw json.RawMessage, into *string, optional bool) bool {
	if raw == nil || raw[0] == 'n' {
		return optional
	}
	in := jsonvalue.NewReader(raw)
	var err error
	*into, err = in.String()
	return err == nil
}

// objectField: an object; nil for null and missing.
func objectField(raw json.RawMessage) (json.RawMessage, bool) {
	if raw == nil || raw[0] == 'n' {
		return nil, true
	}
	return raw, raw[0] == '{'
}

// mapField is objectField's, with numbers as they were written.
func mapField(raw json.RawMessage, into *map[string]any) bool {
	raw, ok := objectField(raw)
	if !ok || raw == nil {
		return ok
	}
	in := jsonvalue.NewReader(raw)
	var err error
	*into, err = in.Map()
	return err == nil
}

// reply is what the server sends besides next.
type reply struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

// frame of r. Its parts are JSON already or a string, so encoding cannot fail.
func (r reply) frame() []byte {
	b, _ := json.Marshal(r)
	return text(b)
}

// nextPrefix opens every event of an operation; its layout closes it.
func nextPrefix(id string) []byte {
	b, _ := json.Marshal(id)
	return append(append([]byte(`{"id":`), b...), `,"type":"`+typeNext+`","payload":`...)
}

// errorReply is final for the operation: no complete follows it.
func errorReply(id string, list gqlerror.List) reply {
	b, err := json.Marshal(list)
	if err != nil {
		b = []byte(`[{"message":"internal system error","extensions":{"code":"INTERNAL"}}]`)
	}
	return reply{ID: id, Type: typeError, Payload: b}
}
