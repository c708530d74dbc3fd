package limits

import "fmt"

// Limits of one document. A zero field means: no limit.
type Limits struct {
	Tokens     int // lexical tokens, comments included
	NameBytes  int // the longest name
	Nesting    int // brackets of all three kinds within each other, as written
	Depth      int // selection sets within each other, fragments expanded
	Aliases    int // as written
	RootFields int // of one operation, fragments expanded
	Directives int // as written
	Fields     int // of one operation, fragments expanded
	Repeats    int // of fields for one place of the answer, fragments expanded: see repeats.go
	Cost       int // fields that may have to be made, page sizes counted: see cost.go

	PageDefault int // entries of a page when neither first nor last says so
	PageCap     int // the most that a resolver gives; what asks for more is refused there, with a better text
	ListSize    int // assumed entries of a list that is no page
}

// Default is what chathome serves with. GraphiQL's introspection query and a full page of 1,000 messages with
// all their fields fit.
func Default() Limits {
	return Limits{
		Tokens: 1000, NameBytes: 128, Nesting: 40,
		Depth: 15, Aliases: 50, RootFields: 20, Directives: 50, Fields: 2000, Repeats: 50,
		Cost:        30_000,
		PageDefault: 50, PageCap: 1000, ListSize: 10,
	}
}

// Error says which limit a document breaks. It holds nothing of the document.
type Error struct {
	What  string // of what there is too much; a constant
	Limit int    // what is allowed; 0 where the document breaks a rule rather than a number
}

const cost = "cost"

func (e *Error) Error() string {
	switch {
	case e.Limit == 0:
		return e.What
	case e.What == cost:
		return fmt.Sprintf("the document costs more than %d: ask for smaller pages or fewer fields", e.Limit)
	}
	return fmt.Sprintf("the document has more than %d %s", e.Limit, e.What)
}

// over reports whether n breaks limit.
func over(n, limit int) bool { return limit > 0 && n > limit }
