package graphqlhttp

import (
	"context"
	"errors"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/errcode"
	"github.com/99designs/gqlgen/graphql/executor"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/chathome/chathome/graph"
	"github.com/chathome/chathome/server/limits"
)

// Executor is gqlgen's executor with everything in front of it that a stranger's document has to pass. All
// transports share it: HTTP, SSE and WebSocket have the same limits and the same caches.
type Executor struct {
	inner         *executor.Executor
	schema        *ast.Schema
	sizes         *limits.Schema
	limits        limits.Limits
	introspection bool
	timeout       time.Duration
	documents     *cache[*ast.QueryDocument]
	persisted     *cache[string]
}

var _ graphql.GraphExecutor = (*Executor)(nil)

func newExecutor(cfg Config) *Executor {
	inner := executor.New(cfg.Schema)
	if cfg.Present != nil {
		inner.SetErrorPresenter(cfg.Present)
	}
	if cfg.Recover != nil {
		inner.SetRecoverFunc(cfg.Recover)
	}
	inner.SetQueryCache(handedDocument{})
	for _, e := range cfg.Extensions {
		inner.Use(e)
	}
	schema := cfg.Schema.Schema()
	return &Executor{
		inner:         inner,
		schema:        schema,
		sizes:         limits.NewSchema(schema),
		limits:        cfg.Limits,
		introspection: cfg.Introspection,
		timeout:       cfg.Timeout,
		documents:     newCache[*ast.QueryDocument](cfg.DocumentCacheBytes),
		persisted:     newCache[string](cfg.PersistedCacheBytes),
	}
}

// CreateOperationContext finds, or parses and checks, the document of params. Errors are few and short, and
// have the code BAD_REQUEST.
func (e *Executor) CreateOperationContext(ctx context.Context, params *graphql.RawParams) (*graphql.OperationContext, gqlerror.List) {
	hash, err := e.resolvePersisted(params)
	if err != nil {
		return e.refuse(params, gqlerror.List{err})
	}
	doc, list := e.document(params.Query)
	if list != nil {
		return e.refuse(params, list)
	}
	if hash != "" { // only now: what is not valid is not worth keeping
		e.persisted.add(hash, params.Query, len(params.Query))
	}
	op, list := e.inner.CreateOperationContext(context.WithValue(ctx, handedKey{}, doc), params)
	if list != nil {
		return op, badRequest(list)
	}
	if err := e.limits.CheckCost(e.sizes, op.Operation, op.Variables); err != nil {
		return op, badRequest(gqlerror.List{{Message: err.Error()}})
	}
	op.DisableIntrospection = !e.introspection
	return op, nil
}

// document is the checked document of query, from the cache where it is known.
func (e *Executor) document(query string) (*ast.QueryDocument, gqlerror.List) {
	if doc, ok := e.documents.get(query); ok {
		return doc, nil
	}
	tokens, err := e.limits.Scan(query)
	if err != nil {
		return nil, badRequest(gqlerror.List{{Message: err.Error()}})
	}
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, e.limits.Tokens)
	if err != nil {
		var one *gqlerror.Error
		if !errors.As(err, &one) {
			one = &gqlerror.Error{Message: err.Error()}
		}
		return nil, badRequest(gqlerror.List{one})
	}
	if len(doc.Operations) == 0 {
		return nil, badRequest(gqlerror.List{{Message: "the document has no operation"}})
	}
	if err := e.limits.Shape(doc); err != nil {
		return nil, badRequest(gqlerror.List{{Message: err.Error()}})
	}
	if !e.introspection && introspects(doc) {
		return nil, badRequest(gqlerror.List{{Message: "introspection is switched off on this server"}})
	}
	if list := validator.ValidateWithRules(e.schema, doc, e.rules()); len(list) > 0 {
		return nil, badRequest(list)
	}
	e.documents.add(query, doc, documentBytes(len(query), tokens))
	return doc, nil
}

// rules are GraphQL's own. Without introspection the validator must not suggest names either.
func (e *Executor) rules() *rules.Rules {
	r := rules.NewDefaultRules()
	if !e.introspection {
		r.ReplaceRule(rules.FieldsOnCorrectTypeRule.Name, rules.FieldsOnCorrectTypeRuleWithoutSuggestions.RuleFunc)
		r.ReplaceRule(rules.ScalarLeafsRule.Name, rules.ScalarLeafsRuleWithoutSuggestions.RuleFunc)
		r.ReplaceRule(rules.KnownArgumentNamesRule.Name, rules.KnownArgumentNamesRuleWithoutSuggestions.RuleFunc)
		r.ReplaceRule(rules.KnownTypeNamesRule.Name, rules.KnownTypeNamesRuleWithoutSuggestions.RuleFunc)
		r.ReplaceRule(rules.ValuesOfCorrectTypeRule.Name, rules.ValuesOfCorrectTypeRuleWithoutSuggestions.RuleFunc)
	}
	return r
}

// documentBytes estimates a parsed document: TestDocumentBytes_AreNotUnderestimated compares.
func documentBytes(text, tokens int) int { return text + 500*tokens + 1000 }

// DispatchOperation executes. Queries and mutations get the deadline within which everything below answers.
func (e *Executor) DispatchOperation(ctx context.Context, op *graphql.OperationContext) (graphql.ResponseHandler, context.Context) {
	if e.timeout <= 0 || op.Operation.Operation == ast.Subscription {
		return e.inner.DispatchOperation(ctx, op)
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	responses, ctx := e.inner.DispatchOperation(ctx, op)
	return func(ctx context.Context) *graphql.Response {
		defer cancel()
		return responses(ctx)
	}, ctx
}

// DispatchError presents the errors of an operation that is not executed.
func (e *Executor) DispatchError(ctx context.Context, list gqlerror.List) *graphql.Response {
	return e.inner.DispatchError(ctx, list)
}

func (e *Executor) refuse(params *graphql.RawParams, list gqlerror.List) (*graphql.OperationContext, gqlerror.List) {
	return &graphql.OperationContext{
		RawQuery:      params.Query,
		OperationName: params.OperationName,
		Headers:       params.Headers,
	}, list
}

// badRequest makes list fit for strangers. A code that an extension gave stays.
func badRequest(list gqlerror.List) gqlerror.List {
	list = limits.CapErrors(list)
	for _, e := range list {
		switch e.Extensions["code"] {
		case nil, errcode.ParseFailed, errcode.ValidationFailed:
			e.Extensions = map[string]any{"code": graph.CodeBadRequest}
		}
	}
	return list
}

// introspects: __typename alone does not.
func introspects(doc *ast.QueryDocument) bool {
	var in func(ast.SelectionSet) bool
	in = func(set ast.SelectionSet) bool {
		for _, s := range set {
			switch s := s.(type) {
			case *ast.Field:
				if s.Name == "__schema" || s.Name == "__type" {
					return true
				}
			case *ast.InlineFragment:
				if in(s.SelectionSet) {
					return true
				}
			}
		}
		return false
	}
	for _, op := range doc.Operations {
		if in(op.SelectionSet) {
			return true
		}
	}
	for _, f := range doc.Fragments {
		if in(f.SelectionSet) {
			return true
		}
	}
	return false
}

// handedDocument is gqlgen's query cache as we use it: not a cache, but the way to hand over the document
// that was checked for this very request, so that gqlgen does not parse it again.
type handedDocument struct{}

type handedKey struct{}

func (handedDocument) Get(ctx context.Context, _ string) (*ast.QueryDocument, bool) {
	doc, ok := ctx.Value(handedKey{}).(*ast.QueryDocument)
	return doc, ok
}

func (handedDocument) Add(context.Context, string, *ast.QueryDocument) {}
