package ws

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/graph"
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
// connection is closed with 4400 then. So it is for text that Go's decoder would have to change.
func parse(b []byte) (message, error) {
	if err := graph.CheckJSONText(b); err != nil {
		return message{}, fmt.Errorf("%w: %w", errInvalid, err)
	}
	// A map, because encoding/json matches a struct's names in any letter case.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(b, &fields); err != nil || fields == nil {
		return message{}, errInvalid
	}
	var m message
	if !stringField(fields, "type", &m.kind, false) {
		return message{}, errInvalid
	}
	ok := false
	switch m.kind {
	case typeInit, typePing, typePong:
		m.payload, ok = objectField(fields, "payload")
	case typeComplete:
		ok = idField(fields, &m.id)
	case typeSubscribe:
		payload, isObject := objectField(fields, "payload")
		if idField(fields, &m.id) && isObject && payload != nil {
			m.params, ok = parseParams(payload)
		}
	}
	if !ok {
		return message{}, errInvalid
	}
	return m, nil
}

func parseParams(payload json.RawMessage) (*graphql.RawParams, bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(payload, &fields) != nil {
		return nil, false
	}
	var p graphql.RawParams
	variables, ok1 := objectField(fields, "variables")
	extensions, ok2 := objectField(fields, "extensions")
	ok := ok1 && ok2 &&
		stringField(fields, "query", &p.Query, false) &&
		stringField(fields, "operationName", &p.OperationName, true) &&
		decodeObject(variables, &p.Variables) &&
		decodeObject(extensions, &p.Extensions)
	return &p, ok
}

// decodeObject keeps numbers as they were written.
func decodeObject(raw json.RawMessage, into *map[string]any) bool {
	if raw == nil {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(into) == nil
}

// idField: a string that is not empty.
func idField(fields map[string]json.RawMessage, id *string) bool {
	return stringField(fields, "id", id, false) && *id != "" && len(*id) <= maxID
}

// stringField: a string; optional: or null or missing.
func stringField(fields map[string]json.RawMessage, name string, into *string, optional bool) bool {
	raw := fields[name]
	if raw == nil || raw[0] == 'n' {
		return optional
	}
	return raw[0] == '"' && json.Unmarshal(raw, into) == nil
}

// objectField: an object; nil for null and missing.
func objectField(fields map[string]json.RawMessage, name string) (json.RawMessage, bool) {
	raw := fields[name]
	if raw == nil || raw[0] == 'n' {
		return nil, true
	}
	return raw, raw[0] == '{'
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
