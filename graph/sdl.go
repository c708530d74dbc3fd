package graph

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed *.graphqls
var schemas embed.FS

// SDL is the whole schema with its descriptions, for code generators.
func SDL() (string, error) {
	names, err := fs.Glob(schemas, "*.graphqls") // in order of name
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for i, name := range names {
		text, err := schemas.ReadFile(name)
		if err != nil {
			return "", err
		}
		if i > 0 {
			all.WriteByte('\n')
		}
		all.Write(text)
	}
	return all.String(), nil
}
