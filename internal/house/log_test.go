package house

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// lines are the messages of level warn and error that the program may log, with their levels.
func lines(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	add := func(message string, levels ...string) {
		for _, level := range levels {
			if !slices.Contains(found[message], level) {
				found[message] = append(found[message], level)
			}
		}
	}
	for _, f := range files(t) {
		if f.test || isTestHelper(f.dir) || !in(f.dir, "domain", "graph", "kafkasvc", "server") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch name := method.Sel.Name; name {
			case "Warn", "Error":
				if message, ok := literal(call, 0); ok {
					add(message, strings.ToLower(name))
				}
			case "Log", "LogAttrs": // the level is decided there
				if message, ok := literal(call, 2); ok {
					add(message, "warn", "error")
				}
			}
			return true
		})
	}
	if len(found) < 30 {
		t.Fatalf("only %d lines: looking in the wrong place", len(found))
	}
	return found
}

func literal(call *ast.CallExpr, n int) (string, bool) {
	if len(call.Args) <= n {
		return "", false
	}
	lit, ok := call.Args[n].(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// Whoever is woken by a line of the log finds it in the manual, with its meaning and cure; and the manual lists no
// line that there is not.
func TestLogLines_StandInTheManual(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/OPERATIONS.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| (warn|error|warn or error) \\| `([^|]+)` \\| [^|]{20,} \\|$")
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		rows[match[2]] = match[1]
	}
	all := lines(t)
	for message, levels := range all {
		slices.Sort(levels)
		slices.Reverse(levels)
		if want := strings.Join(levels, " or "); rows[message] == "" {
			t.Errorf("docs/OPERATIONS.md lacks: | %s | `%s` |", want, message)
		} else if rows[message] != want {
			t.Errorf("docs/OPERATIONS.md says %s, it is %s: %s", rows[message], want, message)
		}
	}
	for message := range rows {
		if all[message] == nil {
			t.Errorf("docs/OPERATIONS.md lists what no code logs: %s", message)
		}
	}
}
