package ws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// comesAgain is graphql-ws 6: shouldRetryConnectOrThrow and isFatalInternalCloseCode in its client.js.
func comesAgain(code int) bool {
	if code >= 1000 && code <= 1999 {
		return slices.Contains([]int{1000, 1001, 1005, 1006, 1012, 1013, 1014}, code)
	}
	return !slices.Contains([]int{4500, 4005, 4400, 4004, 4401, 4406, 4409, 4429}, code)
}

// The table in the manual, what the code says of its close codes, and the client that it speaks of agree.
func TestCloseCodes_AreThoseOfTheManual(t *testing.T) {
	again := map[string]bool{"comes again": true, "again": true}
	manual, err := os.ReadFile("../../docs/HTTP.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[int]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d{4}) \|.*\| (comes again|gives up) \|$`).FindAllStringSubmatch(string(manual), -1) {
		code, _ := strconv.Atoi(row[1])
		table[code] = again[row[2]]
	}

	file, err := parser.ParseFile(token.NewFileSet(), "close.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	sent := map[int]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "close") {
			return true
		}
		code, err := strconv.Atoi(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		word, _, _ := strings.Cut(strings.TrimSpace(spec.Comment.Text()), ":")
		sent[code] = again[word]
		return true
	})

	if len(sent) < 10 {
		t.Fatalf("only %d close codes found in the code", len(sent))
	}
	for code, a := range sent {
		if documented, ok := table[code]; !ok || documented != a || comesAgain(code) != a {
			t.Errorf("%d: in the manual: %v, again there %v, in the code %v, after graphql-ws %v", code, ok, documented, a, comesAgain(code))
		}
	}
	for code := range table {
		if _, ok := sent[code]; !ok {
			t.Errorf("%d is in the manual only", code)
		}
	}
}
