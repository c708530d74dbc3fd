package httpserver

import (
	"encoding/json"
	"fmt"
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

// refuse answers a request that never reaches GraphQL. Nothing was executed.
func refuse(w http.ResponseWriter, status int, message string) {
	code := "BAD_REQUEST"
	if status == http.StatusForbidden {
		code = "FORBIDDEN"
	}
	writeJSON(w, status, refusal{Errors: []refusalError{{Message: message, Extensions: map[string]string{"code": code}}}})
}

func refuseLarge(w http.ResponseWriter, limit int64) {
	w.Header().Set("Connection", "close") // the rest of the body is not worth reading
	refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", limit))
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
