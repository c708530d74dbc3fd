package limits

import "github.com/vektah/gqlparser/v2/ast"

// checkRepeats bounds how often one place of the answer is asked for. Validation compares each two fields that
// share a place, to see that they can be merged: their square is what takes its time.
//
// It visits every field with fragments expanded, so it comes after that number has been bounded.
func (l Limits) checkRepeats(doc *ast.QueryDocument) error {
	r := repeats{limit: l.Repeats, fragments: make(map[string]ast.SelectionSet, len(doc.Fragments))}
	for _, f := range doc.Fragments {
		if _, ok := r.fragments[f.Name]; !ok {
			r.fragments[f.Name] = f.SelectionSet
		}
	}
	for _, op := range doc.Operations {
		r.place([]ast.SelectionSet{op.SelectionSet})
	}
	for _, f := range doc.Fragments { // each is validated on its own, too
		r.place([]ast.SelectionSet{f.SelectionSet})
	}
	if r.over {
		return &Error{What: "fields for one place of the answer", Limit: l.Repeats}
	}
	return nil
}

type repeats struct {
	limit     int
	fragments map[string]ast.SelectionSet
	over      bool
}

// place looks at the selection sets that together make one object of the answer.
func (r *repeats) place(sets []ast.SelectionSet) {
	var fields []*ast.Field
	for _, set := range sets {
		fields = r.fields(fields, set)
	}
	if r.over || len(fields) == 0 {
		return
	}
	if len(fields) == 1 { // the usual chain of single fields needs no map
		r.place([]ast.SelectionSet{fields[0].SelectionSet})
		return
	}
	below := make(map[string][]ast.SelectionSet, len(fields))
	count := make(map[string]int, len(fields))
	for _, f := range fields {
		if count[f.Alias]++; over(count[f.Alias], r.limit) {
			r.over = true
			return
		}
		if len(f.SelectionSet) > 0 {
			below[f.Alias] = append(below[f.Alias], f.SelectionSet)
		}
	}
	for _, sets := range below {
		r.place(sets)
	}
}

// fields collects those of set itself. The parser gives every field an alias.
func (r *repeats) fields(to []*ast.Field, set ast.SelectionSet) []*ast.Field {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			to = append(to, s)
		case *ast.InlineFragment:
			to = r.fields(to, s.SelectionSet)
		case *ast.FragmentSpread:
			to = r.fields(to, r.fragments[s.Name])
		}
	}
	return to
}
