package graphqlhttp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/graph"
)

// resolvePersisted does automatic persisted queries as Apollo's clients speak them: a request may name its
// document by hash, and sends both once when the server does not know the hash. The hash is returned where
// the document came along and may be kept.
//
// Source: https://www.apollographql.com/docs/apollo-server/performance/apq
func (e *Executor) resolvePersisted(params *graphql.RawParams) (hash string, err *gqlerror.Error) {
	raw, ok := params.Extensions["persistedQuery"]
	if !ok {
		if params.Query == "" {
			return "", refusal(graph.CodeBadRequest, "the request has no query")
		}
		return "", nil
	}
	named, ok := raw.(map[string]any)
	if !ok {
		return "", refusal(graph.CodeBadRequest, "extensions.persistedQuery must be an object")
	}
	hash, ok = named["sha256Hash"].(string)
	if !ok || !isVersion1(named["version"]) || len(hash) != sha256.Size*2 {
		return "", refusal(graph.CodeBadRequest, "extensions.persistedQuery must have version 1 and a sha256Hash of 64 hexadecimal digits")
	}
	if params.Query == "" {
		query, ok := e.persisted.get(hash)
		if !ok {
			// Clients look for exactly this message and code.
			return "", refusal(graph.CodePersistedQueryNotFound, "PersistedQueryNotFound")
		}
		params.Query = query
		return "", nil
	}
	if sum := sha256.Sum256([]byte(params.Query)); hex.EncodeToString(sum[:]) != hash {
		return "", refusal(graph.CodeBadRequest, "extensions.persistedQuery.sha256Hash is not the hash of the query")
	}
	return hash, nil
}

func isVersion1(v any) bool {
	switch v := v.(type) {
	case json.Number:
		return v == "1"
	case float64:
		return v == 1
	case int64:
		return v == 1
	}
	return false
}

func refusal(code, message string) *gqlerror.Error {
	return &gqlerror.Error{Message: message, Extensions: map[string]any{"code": code}}
}
