package graph_test

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph/model"
)

func ctx() context.Context { return context.Background() }

func parse(text string) map[string]any {
	m := map[string]any{}
	if text == "" {
		return m
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		panic(err)
	}
	return m
}

func messageID(room uuid.UUID, serial domain.Serial) string {
	return model.MessageID{Room: room, Serial: serial}.String()
}

// unknownOn is an id of no room, on an open shard.
func unknownOn(h *domaintest.Home) uuid.UUID { return h.DrawChatRoomID() }
