package graph_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/99designs/gqlgen/graphql/handler/transport"

	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph"
)

var (
	_ graph.Executor = (*executor.Executor)(nil)
	_ graph.Executor = (*handler.Server)(nil)
)

// gqlgen's own transports know nothing of the seam and show the same answers.
func TestHandler_OfGqlgenShowsTheSameEnd(t *testing.T) {
	h := domaintest.New(domaintest.Config{})
	room := h.AddRoom("lobby")
	h.PostN(room.ID, 2)
	s := handler.New(graph.New(h))
	graph.Configure(s, slog.New(slog.DiscardHandler))
	s.AddTransport(transport.SSE{})
	s.AddTransport(transport.POST{})
	server := httptest.NewServer(s)
	defer server.Close()
	client := server.Client()
	defer client.CloseIdleConnections()

	post := func(accept, body string) io.ReadCloser {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", accept)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		return response.Body
	}

	body := post("application/json", fmt.Sprintf(`{"query": "{ chatRoom(id: \"%s\") { messages(first: 1) { edges { node { serial } } } } }"}`, room.ID))
	b, err := io.ReadAll(body)
	if err != nil || string(b) != `{"data":{"chatRoom":{"messages":{"edges":[{"node":{"serial":"1"}}]}}}}` {
		t.Errorf("query: %s, %v", b, err)
	}
	body.Close()

	events := post("text/event-stream", fmt.Sprintf(`{"query": "subscription { messages(chatRoomId: \"%s\") { edges { node { serial } } live } }"}`, room.ID))
	defer events.Close()
	var got []string
	for lines := bufio.NewScanner(events); lines.Scan(); {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, ":") {
			continue
		}
		got = append(got, line)
		if strings.Contains(line, `"live":true`) {
			h.Lock(room.Shard)
		}
	}
	all := strings.Join(got, "\n")
	if len(got) != 5 || !strings.Contains(got[1], `{"data":{"messages":{"edges":[{"node":{"serial":"1"}},{"node":{"serial":"2"}}],"live":true}}}`) ||
		!strings.Contains(got[3], `"code":"SHARD_NOT_OWNED"`) || !strings.HasSuffix(got[3], `"data":null}`) || !strings.Contains(got[4], "complete") {
		t.Errorf("events:\n%s", all)
	}
}
