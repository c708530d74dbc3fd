package sse

import (
	"maps"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// resumed is op starting behind the event with the given id, which is a cursor: the root field's argument
// after is replaced by it, and last, which would contradict, is taken out. A subscription without such an
// argument has nothing to resume: it says everything anew.
//
// op's document is shared with other requests, so what changes is copied.
func resumed(op *graphql.OperationContext, id string) *graphql.OperationContext {
	if op.Operation.Operation != ast.Subscription {
		return op
	}
	r := resumption{fragments: op.Doc.Fragments, id: id}
	root := *op.Operation
	root.SelectionSet = r.selections(root.SelectionSet)
	if !r.found {
		return op
	}
	doc := *op.Doc
	doc.Operations = make(ast.OperationList, len(op.Doc.Operations))
	for i, o := range op.Doc.Operations {
		if o == op.Operation {
			o = &root
		}
		doc.Operations[i] = o
	}
	again := &graphql.OperationContext{ // without op's cache of collected fields, which knows the old ones
		RawQuery: op.RawQuery, OperationName: op.OperationName, Doc: &doc, Operation: &root,
		Variables: maps.Clone(op.Variables), Extensions: op.Extensions, Headers: op.Headers,
		DisableIntrospection: op.DisableIntrospection, RecoverFunc: op.RecoverFunc,
		ResolverMiddleware: op.ResolverMiddleware, RootResolverMiddleware: op.RootResolverMiddleware,
		Stats: op.Stats,
	}
	for _, name := range r.replaced {
		// Where the variable had no other use, it would only keep this reader from sharing events.
		if !uses(root.SelectionSet, name, map[string]bool{}) {
			delete(again.Variables, name)
		}
	}
	return again
}

type resumption struct {
	fragments ast.FragmentDefinitionList
	id        string
	found     bool
	replaced  []string // names of variables
}

// selections copies the way to the root field. There is no cycle: the document is valid.
func (r *resumption) selections(set ast.SelectionSet) ast.SelectionSet {
	changed := make(ast.SelectionSet, len(set))
	for i, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			changed[i] = r.field(s)
		case *ast.InlineFragment:
			c := *s
			c.SelectionSet = r.selections(s.SelectionSet)
			changed[i] = &c
		case *ast.FragmentSpread: // as an inline one, since the definition is shared
			def := r.fragments.ForName(s.Name)
			if def == nil {
				changed[i] = s
				continue
			}
			changed[i] = &ast.InlineFragment{
				TypeCondition:    def.TypeCondition,
				Directives:       s.Directives,
				SelectionSet:     r.selections(def.SelectionSet),
				ObjectDefinition: s.ObjectDefinition,
				Position:         s.Position,
			}
		}
	}
	return changed
}

func (r *resumption) field(f *ast.Field) *ast.Field {
	if f.Definition == nil {
		return f
	}
	after := f.Definition.Arguments.ForName("after")
	if after == nil {
		return f
	}
	r.found = true
	c := *f
	c.Arguments = nil
	for _, a := range f.Arguments {
		if a.Name != "after" && a.Name != "last" {
			c.Arguments = append(c.Arguments, a)
		} else if a.Value.Kind == ast.Variable {
			r.replaced = append(r.replaced, a.Value.Raw)
		}
	}
	c.Arguments = append(c.Arguments, &ast.Argument{
		Name:     "after",
		Position: f.Position,
		Value:    &ast.Value{Raw: r.id, Kind: ast.StringValue, Position: f.Position, ExpectedType: after.Type},
	})
	return &c
}

// uses reports whether a variable occurs anywhere in set.
func uses(set ast.SelectionSet, name string, seen map[string]bool) bool {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			if inArguments(s.Arguments, name) || inDirectives(s.Directives, name) || uses(s.SelectionSet, name, seen) {
				return true
			}
		case *ast.InlineFragment:
			if inDirectives(s.Directives, name) || uses(s.SelectionSet, name, seen) {
				return true
			}
		case *ast.FragmentSpread:
			if inDirectives(s.Directives, name) {
				return true
			}
			if s.Definition != nil && !seen[s.Name] {
				seen[s.Name] = true
				if uses(s.Definition.SelectionSet, name, seen) {
					return true
				}
			}
		}
	}
	return false
}

func inDirectives(list ast.DirectiveList, name string) bool {
	for _, d := range list {
		if inArguments(d.Arguments, name) {
			return true
		}
	}
	return false
}

func inArguments(list ast.ArgumentList, name string) bool {
	for _, a := range list {
		if inValue(a.Value, name) {
			return true
		}
	}
	return false
}

func inValue(v *ast.Value, name string) bool {
	if v == nil {
		return false
	}
	if v.Kind == ast.Variable && v.Raw == name {
		return true
	}
	for _, c := range v.Children {
		if inValue(c.Value, name) {
			return true
		}
	}
	return false
}
