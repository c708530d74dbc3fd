package graph

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/domain/domaintest"
	"github.com/chathome/chathome/graph/model"
)

func sender(tb testing.TB) (r mutation, input model.SendMessageInput) {
	tb.Helper()
	h := domaintest.New(domaintest.Config{})
	room := h.AddRoom("lobby")
	return mutation{&resolvers{home: h}}, model.SendMessageInput{ChatRoomID: room.ID.String(), User: "alice", ClientID: "1", Text: "hi"}
}

// BenchmarkSendMessage is what the resolver and a home in memory cost beside gqlgen.
func BenchmarkSendMessage(b *testing.B) {
	r, input := sender(b)
	ctx := context.Background()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		input.ClientID = strconv.Itoa(i)
		if _, err := r.SendMessage(ctx, input); err != nil {
			b.Fatal(err)
		}
	}
}

// The product allows 20 allocations between resolver and group commit.
func TestSendMessage_AllocatesLittleBetweenResolverAndHome(t *testing.T) {
	r, input := sender(t)
	ctx := context.Background()
	i := 0
	n := testing.AllocsPerRun(1000, func() {
		i++
		input.ClientID = strconv.Itoa(i)
		result, err := r.SendMessage(ctx, input)
		if _, ok := result.(*model.SendMessageSuccess); !ok || err != nil {
			t.Fatal(result, err)
		}
	})
	if n > 8 { // the home's own slice and map among them
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkMessageBatch reads one event of n messages as a subscription does.
func BenchmarkMessageBatch(b *testing.B) {
	for _, n := range []int{1, 64, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := domaintest.New(domaintest.Config{})
			info := h.AddRoom("lobby")
			h.PostN(info.ID, n)
			ctx := context.Background()
			room, err := h.ChatRoom(ctx, info.Shard, info.ID)
			if err != nil {
				b.Fatal(err)
			}
			read := messageBatches(room, room.Feed())
			b.ReportAllocs()
			for b.Loop() {
				if _, to, err := read(ctx, 0, 0); err != nil || to != domain.Serial(n) {
					b.Fatal(to, err)
				}
			}
		})
	}
}

// BenchmarkCheckJSONText is per request body.
func BenchmarkCheckJSONText(b *testing.B) {
	body := []byte(`{"query":"mutation($i: SendMessageInput!) { sendMessage(input: $i) { __typename } }","variables":{"i":{"text":"\ud83d\ude00 hello there"}}}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := CheckJSONText(body); err != nil {
			b.Fatal(err)
		}
	}
}
