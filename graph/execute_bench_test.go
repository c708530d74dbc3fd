package graph_test

import (
	"fmt"
	"testing"

	"github.com/99designs/gqlgen/graphql"

	"github.com/chathome/chathome/domain/domaintest"
)

// BenchmarkPage is what gqlgen makes of a page of messages with all their fields.
func BenchmarkPage(b *testing.B) {
	for _, n := range []int{1, 50, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := newClient(domaintest.Config{})
			room := c.home.AddRoom("lobby")
			c.home.PostN(room.ID, n)
			ctx := graphql.StartOperationTrace(ctx())
			op, errs := c.exec.CreateOperationContext(ctx, &graphql.RawParams{
				Query:     `query($id: ID!) { chatRoom(id: $id) { messages(first: 1000) { edges { cursor node { id user clientId text serial sentAt } } } } }`,
				Variables: map[string]any{"id": room.ID.String()},
			})
			if errs != nil {
				b.Fatal(errs)
			}
			b.ReportAllocs()
			for b.Loop() {
				next, ctx := c.exec.DispatchOperation(ctx, op)
				if r := next(ctx); len(r.Errors) > 0 {
					b.Fatal(r.Errors)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/edge")
		})
	}
}
