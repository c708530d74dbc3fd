package limits

import (
	"math"

	"github.com/vektah/gqlparser/v2/ast"
)

// Shape looks at the parsed document before it is validated: every fragment and operation once, however often
// it is spread. Errors are *Error.
func (l Limits) Shape(doc *ast.QueryDocument) error {
	c := shapes{fragments: make(map[string]*fragment, len(doc.Fragments))}
	for _, f := range doc.Fragments {
		if _, ok := c.fragments[f.Name]; !ok {
			c.fragments[f.Name] = &fragment{set: f.SelectionSet}
		}
		c.directives += len(f.Directives)
	}
	for _, op := range doc.Operations {
		c.directives += len(op.Directives)
		for _, v := range op.VariableDefinitions {
			c.directives += len(v.Directives)
		}
		s := c.selection(op.SelectionSet)
		switch {
		case c.cycle:
			return &Error{What: "a fragment of the document spreads itself"}
		case over(s.depth, l.Depth):
			return &Error{What: "levels of fields", Limit: l.Depth}
		case over(s.roots, l.RootFields):
			return &Error{What: "root fields", Limit: l.RootFields}
		case over(s.fields, l.Fields):
			return &Error{What: "fields, fragments expanded", Limit: l.Fields}
		}
	}
	for _, f := range doc.Fragments { // those that nothing spreads are validated too
		s := c.spread(f.Name)
		switch {
		case c.cycle:
			return &Error{What: "a fragment of the document spreads itself"}
		case over(s.fields, l.Fields):
			return &Error{What: "fields, fragments expanded", Limit: l.Fields}
		}
	}
	switch {
	case over(c.aliases, l.Aliases):
		return &Error{What: "aliases", Limit: l.Aliases}
	case over(c.directives, l.Directives):
		return &Error{What: "directives", Limit: l.Directives}
	case l.Repeats > 0 && l.Fields > 0: // without a bound on the fields, counting them has none either
		return l.checkRepeats(doc)
	}
	return nil
}

// shape of a selection set with its fragments expanded.
type shape struct {
	depth  int
	roots  int // fields of the set itself
	fields int // those and all below
}

type fragment struct {
	set     ast.SelectionSet
	visited bool
	open    bool // being looked at: whoever comes here again has gone in a circle
	shape   shape
}

type shapes struct {
	fragments  map[string]*fragment
	aliases    int
	directives int
	cycle      bool
}

// selection recurses as deep as the document is written: Scan has bounded that.
func (c *shapes) selection(set ast.SelectionSet) shape {
	var all shape
	for _, s := range set {
		var one shape
		switch s := s.(type) {
		case *ast.Field:
			if s.Alias != "" && s.Alias != s.Name { // the parser sets an alias for every field
				c.aliases++
			}
			c.directives += len(s.Directives)
			below := c.selection(s.SelectionSet)
			one = shape{depth: below.depth + 1, roots: 1, fields: add(below.fields, 1)}
		case *ast.InlineFragment:
			c.directives += len(s.Directives)
			one = c.selection(s.SelectionSet)
		case *ast.FragmentSpread:
			c.directives += len(s.Directives)
			one = c.spread(s.Name)
		}
		all.depth = max(all.depth, one.depth)
		all.roots = add(all.roots, one.roots)
		all.fields = add(all.fields, one.fields)
	}
	return all
}

func (c *shapes) spread(name string) shape {
	f := c.fragments[name]
	switch {
	case f == nil: // validation says so
		return shape{}
	case f.open:
		c.cycle = true
		return shape{}
	case !f.visited:
		f.open = true
		f.shape = c.selection(f.set)
		f.open, f.visited = false, true
	}
	return f.shape
}

// add and times stop at the largest number instead of running over it.
func add(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

func times(a, b int) int {
	if a != 0 && b > math.MaxInt/a {
		return math.MaxInt
	}
	return a * b
}
