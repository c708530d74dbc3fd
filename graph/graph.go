package graph

import (
	"context"
	"log/slog"

	"github.com/99designs/gqlgen/graphql"
	"github.com/google/uuid"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph/generated"
	"github.com/chathome/chathome/graph/model"
)

// New returns the schema over home, to be served by any executor; Configure gives that one the rest.
func New(home domain.ChatHome) graphql.ExecutableSchema {
	return generated.NewExecutableSchema(generated.Config{Resolvers: &resolvers{home: home}})
}

// Executor is what Configure needs: gqlgen's executor.Executor and handler.Server have it.
type Executor interface {
	SetErrorPresenter(graphql.ErrorPresenterFunc)
	SetRecoverFunc(graphql.RecoverFunc)
	Use(graphql.HandlerExtension)
}

// Configure makes e tell errors as the schema says, end subscriptions with a last event, and refuse what the
// parser would replace. Without it inner texts would leak. Faults of the program go to log.
func Configure(e Executor, log *slog.Logger) {
	present := NewErrorPresenter(log)
	e.SetErrorPresenter(present)
	e.SetRecoverFunc(Recover)
	for _, x := range Extensions(present) {
		e.Use(x)
	}
}

// Extensions are what any transport must use.
func Extensions(present graphql.ErrorPresenterFunc) []graphql.HandlerExtension {
	return []graphql.HandlerExtension{StreamEnd{Present: present}, UnicodeDocuments{}}
}

// resolvers are the root of all resolvers. They decide nothing: the domain does.
type resolvers struct{ home domain.ChatHome }

var _ generated.ResolverRoot = (*resolvers)(nil)

type (
	query        struct{ *resolvers }
	mutation     struct{ *resolvers }
	subscription struct{ *resolvers }
	chatRoom     struct{ *resolvers }
)

func (r *resolvers) Query() generated.QueryResolver               { return query{r} }
func (r *resolvers) Mutation() generated.MutationResolver         { return mutation{r} }
func (r *resolvers) Subscription() generated.SubscriptionResolver { return subscription{r} }
func (r *resolvers) ChatRoom() generated.ChatRoomResolver         { return chatRoom{r} }

// gate passes the gate. There is no other way to a domain.Room in this package.
func (r *resolvers) gate(ctx context.Context, id uuid.UUID) (domain.Room, error) {
	shard, ok := r.home.ShardOf(id)
	if !ok { // the number of shards is not known yet: every one is locked
		return nil, &domain.ShardNotOwnedError{
			Shard:      shard,
			State:      domain.ShardLocked,
			Instance:   r.home.Instance(),
			RetryAfter: startingRetry,
		}
	}
	return r.home.ChatRoom(ctx, shard, id)
}

// roomID is for queries and subscriptions; a mutation answers InvalidInput instead.
func roomID(argument, s string) (uuid.UUID, error) {
	id, ok := domain.ParseRoomID(s)
	if !ok {
		return id, badRequest("%s must be a chat room's uuid in lower case with hyphens.", argument)
	}
	return id, nil
}

func messageOf(room domain.Room, m *domain.Message) *model.Message {
	return &model.Message{Stored: m, Room: room}
}
