package graph

import (
	"slices"

	"github.com/vektah/gqlparser/v2/ast"
)

// immutable lists what is the same for everybody for ever once it is known which message or room is meant, or
// belongs to one event of a stream. What passes the gate, or tells the state of a shard or its owner, is not.
var immutable = map[string][]string{
	"Node":          {"id"},
	"Message":       {"id", "clientId", "user", "text", "serial", "sentAt", "chatRoom"},
	"ChatRoom":      {"id", "name", "shard", "createdAt"},
	"MessageBatch":  {"edges", "endCursor", "live"},
	"MessageEdge":   {"cursor", "node"},
	"ChatRoomBatch": {"edges", "endCursor", "live"},
	"ChatRoomEdge":  {"cursor", "node"},
}

// Immutable says whether events with this field below their root may be sent to everybody who stands at the
// same position of the same stream. A field that is not listed is not.
func Immutable(f *ast.Field) bool {
	if f.Name == "__typename" {
		return true
	}
	return f.ObjectDefinition != nil && slices.Contains(immutable[f.ObjectDefinition.Name], f.Name)
}
