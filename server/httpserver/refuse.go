package httpserver

import (
	"encoding/json"
	"net/http"
)

// refusal has the shape of a GraphQL answer, so that clients show its text (graphql-over-http: errors and no
// data where nothing was executed).
type refusal struct {
	Errors []refusalError `json:"errors"`
}

type refusalError struct {
	Message    string            `json:"message"`
	Extensions map[string]string `json:"extensions"`
}

// forbid answers a request that never reaches GraphQL. Nothing was executed.
func forbid(w http.ResponseWriter, message string) {
	writeJSON(w, http.StatusForbidden, refusal{Errors: []refusalError{{Message: message, Extensions: map[string]string{"code": "FORBIDDEN"}}}})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // our own types always encode
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
}
