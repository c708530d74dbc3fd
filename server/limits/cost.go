package limits

import (
	"encoding/json"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// Schema is what the costs need to know of a schema.
type Schema struct {
	introspection map[string]int // entries of the lists that describe the schema
}

// NewSchema counts schema.
func NewSchema(schema *ast.Schema) *Schema {
	var fields, args, inputFields, values, interfaces, possible int
	for _, t := range schema.Types {
		if t.Kind == ast.InputObject {
			inputFields += len(t.Fields)
		} else {
			fields += len(t.Fields)
		}
		for _, f := range t.Fields {
			args += len(f.Arguments)
		}
		values += len(t.EnumValues)
		interfaces += len(t.Interfaces)
		if t.Kind != ast.Object {
			possible += len(schema.PossibleTypes[t.Name])
		}
	}
	types := max(len(schema.Types), 1)
	mean := func(n, of int) int { return (n + of - 1) / max(of, 1) }
	return &Schema{introspection: map[string]int{
		"types":         types,
		"directives":    len(schema.Directives),
		"fields":        mean(fields, types),
		"inputFields":   mean(inputFields, types),
		"enumValues":    mean(values, types),
		"interfaces":    mean(interfaces, types),
		"possibleTypes": mean(possible, types),
		"args":          mean(args, fields),
		"locations":     19, // there are no more places for a directive
	}}
}

// CheckCost bounds how many fields an operation may have to make: each field counts one, times the entries of
// the lists above it. A list directly below a field with the argument first or last (the edges of a connection)
// has as many entries as that says. Any other list has ListSize, one of the introspection fields as many as the
// schema has such entries. doc must be validated; every fragment is looked at once for each size of page.
//
// vars are the coerced variables. Errors are *Error.
func (l Limits) CheckCost(schema *Schema, op *ast.OperationDefinition, vars map[string]any) error {
	if l.Cost <= 0 {
		return nil
	}
	c := costs{limits: l, schema: schema, vars: vars}
	if c.selection(op.SelectionSet, noPage) > l.Cost {
		return &Error{What: cost, Limit: l.Cost}
	}
	return nil
}

type costs struct {
	limits Limits
	schema *Schema
	vars   map[string]any
	memo   map[fragmentUse]int
}

type fragmentUse struct {
	name string
	page int
}

// noPage: the field above asks for no page. A page may have no entries.
const noPage = -1

// selection adds up set, whose lists are pages of page entries.
func (c *costs) selection(set ast.SelectionSet, page int) int {
	sum := 0
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			sum = add(sum, c.field(s, page))
		case *ast.InlineFragment:
			sum = add(sum, c.selection(s.SelectionSet, page))
		case *ast.FragmentSpread:
			sum = add(sum, c.spread(s, page))
		}
	}
	return sum
}

func (c *costs) spread(s *ast.FragmentSpread, page int) int {
	use := fragmentUse{s.Name, page}
	if n, ok := c.memo[use]; ok {
		return n
	}
	n := 0
	if s.Definition != nil {
		n = c.selection(s.Definition.SelectionSet, page)
	}
	if c.memo == nil {
		c.memo = make(map[fragmentUse]int)
	}
	c.memo[use] = n
	return n
}

func (c *costs) field(f *ast.Field, page int) int {
	if len(f.SelectionSet) == 0 || f.Definition == nil {
		return 1
	}
	entries := 1
	if f.Definition.Type.Elem != nil {
		switch {
		case page != noPage:
			entries = page
		case f.ObjectDefinition != nil && strings.HasPrefix(f.ObjectDefinition.Name, "__"):
			entries = c.schema.introspection[f.Name]
		default:
			entries = c.limits.ListSize
		}
	}
	return add(1, times(entries, c.selection(f.SelectionSet, c.pageOf(f))))
}

// pageOf is the number of entries that a field with first or last asks for, noPage for any other.
func (c *costs) pageOf(f *ast.Field) int {
	if f.Definition.Arguments.ForName("first") == nil && f.Definition.Arguments.ForName("last") == nil {
		return noPage
	}
	page := noPage
	for _, a := range f.Arguments {
		if a.Name != "first" && a.Name != "last" {
			continue
		}
		if n, ok := c.integer(a.Value); ok {
			page = max(page, min(max(n, 0), c.limits.PageCap))
		}
	}
	if page == noPage {
		page = c.limits.PageDefault
	}
	return page
}

func (c *costs) integer(v *ast.Value) (int, bool) {
	if v == nil {
		return 0, false
	}
	var raw any
	switch v.Kind {
	case ast.Variable:
		raw = c.vars[v.Raw]
	case ast.IntValue:
		raw = json.Number(v.Raw)
	default:
		return 0, false
	}
	switch n := raw.(type) {
	case int:
		return n, true
	case int32:
		return int(n), true
	case int64:
		return int(n), true
	case json.Number:
		i, err := n.Int64()
		if err != nil {
			return c.limits.PageCap, true // too large for a number: the resolver refuses it
		}
		return int(i), true
	}
	return 0, false
}
