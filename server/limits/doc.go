// Package limits bounds what a GraphQL document may ask for, before anything is executed.
//
// The checks come in the order of their price, and each makes the next one affordable:
//
//	scan.go     the text: tokens, length of names, nesting. One pass, no allocation.
//	shape.go    the parsed document: depth, aliases, root fields, directives, fields once fragments are
//	            expanded. Every fragment is looked at once.
//	repeats.go  how many fields share a place of the answer.
//	cost.go     the validated document with its variables: fields times page sizes.
//
// gqlparser's validation stands between repeats and cost. Some of its rules take time that grows with the
// square of the fields; what comes through here keeps that below a few milliseconds.
//
// gqlgen's own FixedComplexityLimit is not used: it follows every path through the fragments, so a document
// of a kilobyte occupies it for seconds.
package limits
