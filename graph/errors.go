package graph

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/google/uuid"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/chathome/chathome/domain"
	"github.com/chathome/chathome/graph/model"
	"github.com/chathome/chathome/graph/scalar"
	"github.com/chathome/chathome/graph/stream"
)

// Values of extensions.code. Together with UserError's description in the schema this is the whole table.
const (
	CodeShardNotOwned    = "SHARD_NOT_OWNED"     // nothing written
	CodeOutcomeUnknown   = "OUTCOME_UNKNOWN"     // maybe written; same ids again, anywhere
	CodeOverloaded       = "OVERLOADED"          // nothing written
	CodeCursorOutOfRange = "CURSOR_OUT_OF_RANGE" //
	CodeUnknownChatRoom  = "UNKNOWN_CHAT_ROOM"   //
	CodeBadRequest       = "BAD_REQUEST"         // nothing written
	CodeUnauthenticated  = "UNAUTHENTICATED"     // reserved
	CodeForbidden        = "FORBIDDEN"           // reserved
	CodeRateLimited      = "RATE_LIMITED"        // reserved
	CodeInternal         = "INTERNAL"            // maybe written

	// CodePersistedQueryNotFound is not for people: clients that name their documents by hash send the document
	// then. They look for exactly this code, or for PersistedQueryNotFound as the message.
	CodePersistedQueryNotFound = "PERSISTED_QUERY_NOT_FOUND" // nothing was executed
)

// startingRetry is told where a home that is just starting cannot say more yet.
const startingRetry = 200 * time.Millisecond

// Error is an error for clients as it is: text and code are public. Transports use it for what they refuse.
type Error struct {
	Code    string
	Message string // a sentence for people: what is wrong, what was done, what to do next
}

func (e *Error) Error() string { return e.Message }

func badRequest(format string, args ...any) error {
	return &Error{Code: CodeBadRequest, Message: fmt.Sprintf(format, args...)}
}

// roomError tells which room createChatRoom tried to create: with the id a retry is the same wish.
type roomError struct {
	id  uuid.UUID
	err error
}

func (e *roomError) Error() string { return fmt.Sprintf("create chat room %s: %v", e.id, e.err) }
func (e *roomError) Unwrap() error { return e.err }

// Recover turns a panic of a resolver into an error that the presenter masks and logs.
func Recover(_ context.Context, v any) error {
	return &stream.PanicError{Value: v, Stack: debug.Stack()}
}

// NewErrorPresenter returns the one place where errors become what clients see. What it does not know is a
// fault of the program: clients get INTERNAL with an id, the log gets the id with the rest.
func NewErrorPresenter(log *slog.Logger) graphql.ErrorPresenterFunc {
	return func(ctx context.Context, err error) *gqlerror.Error {
		shown := &gqlerror.Error{Path: graphql.GetPath(ctx)}
		if e, ok := errors.AsType[*gqlerror.Error](err); ok {
			shown.Locations = e.Locations
			if e.Path != nil {
				shown.Path = e.Path
			}
		}
		told, ok := tell(ctx, err)
		if !ok {
			told = internal(ctx, log, err)
		}
		shown.Message, shown.Extensions = told.message, told.extensions
		if shown.Extensions == nil {
			shown.Extensions = map[string]any{}
		}
		shown.Extensions["code"] = told.code
		if e, ok := errors.AsType[*roomError](err); ok {
			shown.Extensions["chatRoomId"] = e.id.String()
		}
		return shown
	}
}

type told struct {
	code       string
	message    string
	extensions map[string]any
}

// tell is the table. ok is false for what clients must not see.
func tell(ctx context.Context, err error) (t told, ok bool) {
	if e, ok := errors.AsType[*domain.ShardNotOwnedError](err); ok {
		return shardNotOwned(e), true
	}
	if _, ok := errors.AsType[*domain.OutcomeUnknownError](err); ok {
		return outcomeUnknown(), true
	}
	if e, ok := errors.AsType[*domain.OverloadedError](err); ok {
		ms := model.RetryAfterMs(e.RetryAfter)
		return told{
			code:       CodeOverloaded,
			message:    fmt.Sprintf("The server is too busy right now (%s). Nothing was written. Try again in %d ms.", e.Resource, ms),
			extensions: map[string]any{"retryAfterMs": ms},
		}, true
	}
	if e, ok := errors.AsType[*domain.CursorOutOfRangeError](err); ok {
		return told{
			code:       CodeCursorOutOfRange,
			message:    "The cursor points outside the history that is there: messages below it were deleted, or it belongs to another life of the service. Begin at oldestCursor or newestCursor, or without a cursor.",
			extensions: map[string]any{"oldestCursor": orNull(e.Oldest), "newestCursor": orNull(e.Newest)},
		}, true
	}
	if e, ok := errors.AsType[*domain.UnknownChatRoomError](err); ok {
		return told{
			code:       CodeUnknownChatRoom,
			message:    "There is no chat room with this id. Create the room first, or correct the id.",
			extensions: map[string]any{"chatRoomId": e.ID.String()},
		}, true
	}
	if e, ok := errors.AsType[*domain.BadCursorError](err); ok {
		return told{code: CodeBadRequest, message: "This is not a cursor for here: " + e.Reason + ". Use one that the same list answered."}, true
	}
	if e, ok := errors.AsType[*domain.InvalidInputError](err); ok {
		return told{code: CodeBadRequest, message: "Nothing was written: " + e.Error() + "."}, true
	}
	if e, ok := errors.AsType[*scalar.Error](err); ok {
		return told{code: CodeBadRequest, message: "Nothing was executed here: " + e.Reason + "."}, true
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return told{code: e.Code, message: e.Message}, true
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // mostly nobody is there to read it
		return outcomeUnknown(), true
	}
	if e, ok := errors.AsType[*gqlerror.Error](err); ok {
		return tellRequestError(ctx, e)
	}
	return tellIntrospectionOff(ctx)
}

func shardNotOwned(e *domain.ShardNotOwnedError) told {
	n := model.ShardNotOwnedOf(e)
	at := fmt.Sprintf("Try again in %d ms", n.RetryAfterMs)
	if n.Owner != nil && n.Owner.Instance.ID != n.Instance.ID {
		at += ", or at its owner " + n.Owner.Instance.URL
	}
	return told{
		code:       CodeShardNotOwned,
		message:    fmt.Sprintf("Shard %d is not served by this instance now (%s). Nothing was written. %s.", n.Shard, n.State, at),
		extensions: map[string]any{"shardNotOwned": n, "retryAfterMs": n.RetryAfterMs},
	}
}

func outcomeUnknown() told {
	return told{
		code:    CodeOutcomeUnknown,
		message: "It is not known yet whether this was written. Send it again with the same ids, here or at any other instance: that is always safe.",
	}
}

// tellRequestError is for errors that the parser, an extension or a transport made: who gives an error a code
// means it for clients. Those of gqlgen without a code are faults of the program.
func tellRequestError(ctx context.Context, e *gqlerror.Error) (told, bool) {
	switch code, _ := e.Extensions["code"].(string); code {
	case "":
		return tellIntrospectionOff(ctx)
	case errcode.ParseFailed, errcode.ValidationFailed:
		return told{code: CodeBadRequest, message: e.Message}, true
	default:
		return told{code: code, message: e.Message, extensions: maps.Clone(e.Extensions)}, true
	}
}

// tellIntrospectionOff: gqlgen says it with a plain error, so the field has to tell.
func tellIntrospectionOff(ctx context.Context) (told, bool) {
	f := graphql.GetFieldContext(ctx)
	if f == nil || !graphql.HasOperationContext(ctx) || !graphql.GetOperationContext(ctx).DisableIntrospection {
		return told{}, false
	}
	if f.Field.Field == nil || f.Field.Name != "__schema" && f.Field.Name != "__type" {
		return told{}, false
	}
	return told{code: CodeForbidden, message: "Introspection is off on this server."}, true
}

func internal(ctx context.Context, log *slog.Logger, err error) told {
	id := rand.Text()
	attributes := []any{"errorId", id, "err", err}
	if e, ok := errors.AsType[*stream.PanicError](err); ok {
		attributes = append(attributes, "stack", string(e.Stack))
	}
	log.ErrorContext(ctx, "request failed on a fault of the program", attributes...)
	return told{
		code:       CodeInternal,
		message:    "The server failed. It may have written what you sent: send it again with the same ids. If it stays, report this error's id.",
		extensions: map[string]any{"errorId": id},
	}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
