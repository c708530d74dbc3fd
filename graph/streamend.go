package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/graph/stream"
)

// StreamEnd ends a subscription that cannot go on with one last event {"errors":[…],"data":null}, the same on
// every transport: an error frame of a protocol of its own would be final for some clients. A start that is
// refused has the same shape.
//
// It is also the last check of the lease: an event that was made by an instance that has lost the shard since
// is replaced by that last event.
type StreamEnd struct{ Present graphql.ErrorPresenterFunc }

var _ interface {
	graphql.HandlerExtension
	graphql.OperationInterceptor
} = StreamEnd{}

// ExtensionName names it for gqlgen.
func (StreamEnd) ExtensionName() string { return "StreamEnd" }

// Validate has nothing to say.
func (StreamEnd) Validate(graphql.ExecutableSchema) error { return nil }

// InterceptOperation wraps subscriptions.
func (e StreamEnd) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	op := graphql.GetOperationContext(ctx)
	if op.Operation == nil || op.Operation.Operation != ast.Subscription {
		return next(ctx)
	}
	ctx, s := stream.Attach(ctx)
	responses := next(ctx)
	ended := false
	return func(ctx context.Context) *graphql.Response {
		if ended {
			return nil
		}
		r := responses(ctx)
		if !s.Following() { // refused
			return r
		}
		if ctx.Err() != nil { // nobody is there any more, and r may be half an event
			return nil
		}
		err := s.Broken(r == nil)
		if err == nil {
			return r
		}
		ended = true
		return &graphql.Response{Errors: gqlerror.List{e.last(ctx, op, err)}}
	}
}

// last has path and location of the root field, as an error of that field has.
func (e StreamEnd) last(ctx context.Context, op *graphql.OperationContext, err error) *gqlerror.Error {
	shown := e.Present(ctx, err)
	roots := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})
	if len(roots) == 0 {
		return shown
	}
	shown.Path = ast.Path{ast.PathName(roots[0].Alias)}
	if p := roots[0].Position; p != nil {
		shown.Locations = []gqlerror.Location{{Line: p.Line, Column: p.Column}}
	}
	return shown
}
