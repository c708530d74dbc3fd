package limits

import (
	"fmt"
	"unicode/utf8"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// What an answer to a refused document may hold. Together it stays below 4 KB, whatever the document was.
const (
	maxErrors       = 10
	maxMessageBytes = 200
	maxLocations    = 2
	maxPath         = 8

	maxPathNameBytes = 20
)

// CapErrors shortens what parser and validator say about a document: they quote it, and name each fault.
func CapErrors(list gqlerror.List) gqlerror.List {
	kept := list[:min(len(list), maxErrors)]
	capped := make(gqlerror.List, 0, len(kept)+1)
	for _, e := range kept {
		short := *e
		short.Message = cut(e.Message, maxMessageBytes)
		short.Locations = e.Locations[:min(len(e.Locations), maxLocations)]
		short.Path = cutPath(e.Path)
		capped = append(capped, &short)
	}
	if more := len(list) - len(kept); more > 0 {
		capped = append(capped, &gqlerror.Error{Message: fmt.Sprintf("and %d more errors", more)})
	}
	return capped
}

// cutPath shortens a path: its names may come from the keys of a client's JSON.
func cutPath(path ast.Path) ast.Path {
	if path == nil {
		return nil
	}
	short := make(ast.Path, 0, min(len(path), maxPath))
	for _, element := range path[:min(len(path), maxPath)] {
		if name, ok := element.(ast.PathName); ok {
			element = ast.PathName(cut(string(name), maxPathNameBytes))
		}
		short = append(short, element)
	}
	return short
}

// cut shortens s to at most n bytes, between characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "…"
	n -= len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
