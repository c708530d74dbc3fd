package ws

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
)

const create = `{"id":"1","type":"subscribe","payload":{"query":"mutation { createChatRoom(input: {name: \"den\"}) { __typename } }"}}`

// A write of the server's is a read of the client's: that is how pipes are.
func TestAnswer_AndCompleteAreOneWrite(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *testServer) {
		c := s.ready()
		for range 2 { // the id is free again
			c.send(create)
			c.want(`{"id":"1","type":"next","payload":{"data":{"createChatRoom":{"__typename":"CreateChatRoomSuccess"}}}}`)
			if c.br.Buffered() == 0 {
				t.Error("complete comes by itself")
			}
			c.want(`{"id":"1","type":"complete"}`)
		}
	})
}

func TestAnswer_LargeOneIsSentBeforeComplete(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *testServer) {
		for _, id := range []string{"1", "2", "3"} {
			s.home.Post(s.room.ID, domain.Draft{User: "alice", ClientID: id, Text: strings.Repeat("x", maxKeptAnswer/2)})
		}
		c := s.ready()
		c.send(`{"id":"1","type":"subscribe","payload":{"query":"{ chatRoom(id: \"` + s.room.ID.String() + `\") { messages { edges { node { text } } } } }"}}`)
		if m := c.message(); m.Type != typeNext || len(m.Payload) < 3*maxKeptAnswer/2 {
			t.Errorf("%s with %d bytes", m.Type, len(m.Payload))
		}
		c.want(`{"id":"1","type":"complete"}`)
	})
}

// What a client has completed gets no answer any more, and its id is its own again.
func TestAnswer_OfWhatTheClientCompletedIsDropped(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *testServer) {
		c := s.ready()
		hold := make(chan struct{})
		s.home.Inject(domaintest.Fault{Op: domaintest.OpSend, Wait: hold, Times: 1})
		c.send(`{"id":"1","type":"subscribe","payload":{"query":"mutation { sendMessage(input: {chatRoomId: \"` + s.room.ID.String() + `\", user: \"bob\", clientId: \"1\", text: \"hi\"}) { __typename } }"}}`)
		synctest.Wait()
		c.send(`{"id":"1","type":"complete"}`)
		synctest.Wait()
		close(hold)
		synctest.Wait()
		c.send(`{"id":"1","type":"subscribe","payload":{"query":"{ __typename }"}}`)
		c.want(`{"id":"1","type":"next","payload":{"data":{"__typename":"Query"}}}`)
		c.want(`{"id":"1","type":"complete"}`)
	})
}
