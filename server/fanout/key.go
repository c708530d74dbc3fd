package fanout

import (
	"crypto/sha256"
	"encoding/json"
	"maps"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
)

// positionArgs of a root subscription field only say where a stream starts; the resolver has read them by
// then, and the position stands in each event's place in the ring.
var positionArgs = map[string]bool{"after": true, "last": true}

// groupKey names everything that an event's bytes depend on besides the feed and the position: two operations
// with one key may send each other's events. ok is false for those that never share.
func groupKey(op *graphql.OperationContext, viewer string, classify func(*ast.Field) Class) (key string, ok bool) {
	if op.Operation.Operation != ast.Subscription {
		return "", false
	}
	roots := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})
	if len(roots) != 1 {
		return "", false
	}
	w := walker{classify: classify, uses: map[string]int{}, seen: map[*ast.FragmentDefinition]bool{}}
	w.directives(op.Operation.Directives)
	w.selections(op.Operation.SelectionSet, true)
	if w.private {
		return "", false
	}
	vars := maps.Clone(op.Variables)
	for _, a := range roots[0].Arguments {
		// A variable that is used anywhere else as well stays in the key: it may show in the bytes.
		if positionArgs[a.Name] && a.Value.Kind == ast.Variable && w.uses[a.Value.Raw] == 1 {
			delete(vars, a.Value.Raw)
		}
	}
	if !w.perViewer {
		viewer = ""
	}
	b, err := json.Marshal([]any{op.RawQuery, op.OperationName, vars, viewer, w.perViewer})
	sum := sha256.Sum256(b) // a document may be large, and each operation keeps its key
	return string(sum[:]), err == nil
}

// walker looks at a whole operation, fragments once, whatever the values of @include and @skip are.
type walker struct {
	classify  func(*ast.Field) Class
	uses      map[string]int // how often each variable occurs
	seen      map[*ast.FragmentDefinition]bool
	private   bool
	perViewer bool
}

// selections walks a selection set. root: its fields are those of the subscription type itself, which say
// what stream it is; the feed tells streams apart.
func (w *walker) selections(set ast.SelectionSet, root bool) {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			for _, a := range s.Arguments {
				w.value(a.Value)
			}
			w.directives(s.Directives)
			if !root {
				switch w.classify(s) {
				case Immutable:
				case PerViewer:
					w.perViewer = true
				default:
					w.private = true
				}
			}
			w.selections(s.SelectionSet, false)
		case *ast.InlineFragment:
			w.directives(s.Directives)
			w.selections(s.SelectionSet, root)
		case *ast.FragmentSpread:
			w.directives(s.Directives)
			if d := s.Definition; d != nil && !w.seen[d] {
				w.seen[d] = true
				w.directives(d.Directives)
				w.selections(d.SelectionSet, root)
			}
		}
	}
}

func (w *walker) directives(list ast.DirectiveList) {
	for _, d := range list {
		// Their responses come in parts.
		w.private = w.private || d.Name == "defer" || d.Name == "stream"
		for _, a := range d.Arguments {
			w.value(a.Value)
		}
	}
}

func (w *walker) value(v *ast.Value) {
	if v == nil {
		return
	}
	if v.Kind == ast.Variable {
		w.uses[v.Raw]++
	}
	for _, c := range v.Children {
		w.value(c.Value)
	}
}
