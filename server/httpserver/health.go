package httpserver

import (
	"net/http"

	"github.com/chathome/chathome/domain"
)

// Reason says why an instance, or one shard of it, is not ready.
type Reason struct {
	Shard  *domain.ShardID `json:"shard,omitempty"` // nil: it is about the whole instance
	State  string          `json:"state"`           // a constant
	Reason string          `json:"reason"`          // for people
}

type healthAnswer struct {
	Status  string   `json:"status"`
	Reasons []Reason `json:"reasons"`
}

// health says that the process lives and answers; it asks nobody.
func health(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readiness answers 200 while there is no reason against sending requests here, else 503 with all of them.
func readiness(ready func() []Reason) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reasons := ready()
		if len(reasons) == 0 {
			writeJSON(w, http.StatusOK, healthAnswer{Status: "ready", Reasons: []Reason{}})
			return
		}
		writeJSON(w, http.StatusServiceUnavailable, healthAnswer{Status: "not ready", Reasons: reasons})
	})
}
