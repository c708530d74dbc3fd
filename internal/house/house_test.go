// Package house holds the code to the rules of its own house: who may import whom, who may look outside, and
// how large a file may be. It has no code.
package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module   = "github.com/chathome/chathome"
	root     = "../.."
	maxLines = 500
)

// file is one Go file of the module, by hand or generated.
type file struct {
	path      string // with slashes, from the root
	dir       string
	lines     int
	test      bool
	generated bool
	pkg       string
	imports   []string
	syntax    *ast.File
	set       *token.FileSet
}

func files(t *testing.T) []file {
	t.Helper()
	var list []file
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			if base == "node_modules" || base == "testdata" || base == "tools" || (strings.HasPrefix(base, ".") && base != "..") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		f := file{path: filepath.ToSlash(rel), set: token.NewFileSet(), test: strings.HasSuffix(name, "_test.go")}
		f.dir = path.Dir(f.path)
		f.lines = bytes.Count(source, []byte("\n"))
		if f.syntax, err = parser.ParseFile(f.set, name, source, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return err
		}
		f.pkg = f.syntax.Name.Name
		f.generated = ast.IsGenerated(f.syntax)
		for _, spec := range f.syntax.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			f.imports = append(f.imports, p)
		}
		list = append(list, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < 10 {
		t.Fatalf("only %d files: looking in the wrong place", len(list))
	}
	return list
}

// in says whether dir is one of the folders or below one.
func in(dir string, folders ...string) bool {
	for _, folder := range folders {
		if dir == folder || strings.HasPrefix(dir, folder+"/") {
			return true
		}
	}
	return false
}

func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// A rule forbids imports, or allows only some.
type rule struct {
	why    string
	where  func(f file) bool
	forbid func(imported string) bool
}

func own(folders ...string) func(string) bool {
	return func(imported string) bool {
		rest, ok := strings.CutPrefix(imported, module+"/")
		return ok && in(rest, folders...)
	}
}

func anyOf(tests ...func(string) bool) func(string) bool {
	return func(imported string) bool {
		return slices.ContainsFunc(tests, func(test func(string) bool) bool { return test(imported) })
	}
}

func below(prefixes ...string) func(string) bool {
	return func(imported string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return imported == p || strings.HasPrefix(imported, p+"/") })
	}
}

var kafkaLibraries = below("github.com/segmentio/kafka-go", "github.com/twmb", "github.com/cockroachdb/pebble")

func product(folders ...string) func(file) bool {
	return func(f file) bool { return !f.test && in(f.dir, folders...) }
}

func rules() []rule {
	return []rule{
		{
			why:   "domain is pure: the standard library and google/uuid only",
			where: func(f file) bool { return f.dir == "domain" && !f.test },
			forbid: func(p string) bool {
				impure := below("os", "net", "log", "io/fs", "syscall", "database", "testing", "runtime", "sync")
				return p != "github.com/google/uuid" && (!standard(p) || impure(p))
			},
		},
		{
			why:    "domain and its tests know nothing of the house around them",
			where:  func(f file) bool { return in(f.dir, "domain") },
			forbid: own("graph", "kafkasvc", "server", "test"),
		},
		{
			why:    "kafkasvc knows domain, never graph, server or GraphQL",
			where:  product("kafkasvc"),
			forbid: anyOf(own("graph", "server", "test"), below("github.com/99designs", "github.com/vektah")),
		},
		{
			why:    "graph knows domain, never Kafka, the local store or the server",
			where:  product("graph"),
			forbid: anyOf(own("kafkasvc", "server", "test"), kafkaLibraries),
		},
		{
			why: "only the wiring of the server knows Kafka, and metrics what kafkasvc counts: its other packages do not",
			where: func(f file) bool {
				return !f.test && in(f.dir, "server") && f.dir != "server" && f.dir != "server/broker" && f.dir != "server/metrics"
			},
			forbid: anyOf(own("kafkasvc"), kafkaLibraries),
		},
		{
			why:    "flags and signals belong to the server's wiring",
			where:  func(f file) bool { return !f.test && !in(f.dir, "server/config", "test") && f.dir != "server" },
			forbid: below("flag", "os/signal", "github.com/alecthomas/kong"),
		},
		{
			why:    "the product never imports its tests' helpers",
			where:  func(f file) bool { return !f.test && !in(f.dir, "test") && !isTestHelper(f.dir) },
			forbid: func(p string) bool { return own("test")(p) || (below(module)(p) && isTestHelper(p)) || p == "testing" },
		},
	}
}

// isTestHelper: packages such as domain/domaintest, by the convention of the standard library.
func isTestHelper(dir string) bool { return strings.HasSuffix(dir, "test") }

func TestImports(t *testing.T) {
	all := files(t)
	for _, r := range rules() {
		matched := false
		for _, f := range all {
			if !r.where(f) {
				continue
			}
			matched = true
			for _, p := range f.imports {
				if r.forbid(p) {
					t.Errorf("%s imports %s: %s", f.path, p, r.why)
				}
			}
		}
		if !matched {
			t.Errorf("no file is under the rule: %s", r.why)
		}
	}
}

// The rules themselves can fail.
func TestImports_RulesSeeWhatTheyForbid(t *testing.T) {
	for _, tc := range []struct {
		dir, imported string
		forbidden     bool
	}{
		{"domain", "github.com/google/uuid", false},
		{"domain", "strings", false},
		{"domain", "sync", true},
		{"domain", "net/http", true},
		{"domain", "golang.org/x/sync/errgroup", true},
		{"graph", module + "/domain", false},
		{"graph/stream", module + "/kafkasvc", true},
		{"graph", "github.com/segmentio/kafka-go", true},
		{"kafkasvc", module + "/kafkasvc/record", false},
		{"kafkasvc/local", module + "/graph", true},
		{"kafkasvc", "github.com/vektah/gqlparser/v2/ast", true},
		{"kafkasvc", "os/signal", true},
		{"server", "os/signal", false},
		{"server", module + "/kafkasvc", false},
		{"server/ws", module + "/kafkasvc", true},
		{"server/ws", module + "/domain/domaintest", true},
		{"server/config", "github.com/alecthomas/kong", false},
	} {
		got := false
		for _, r := range rules() {
			got = got || (r.where(file{dir: tc.dir}) && r.forbid(tc.imported))
		}
		if got != tc.forbidden {
			t.Errorf("%s imports %s: forbidden %v, want %v", tc.dir, tc.imported, got, tc.forbidden)
		}
	}
}

func TestFiles_HaveOneIdeaEach(t *testing.T) {
	for _, f := range files(t) {
		if !f.test && !f.generated && f.lines > maxLines {
			t.Errorf("%s has %d lines, more than %d: look for the second idea", f.path, f.lines, maxLines)
		}
		if slices.Contains([]string{"util", "utils", "common", "types", "helpers", "misc"}, f.pkg) {
			t.Errorf("%s: package %s says nothing about what is in it", f.path, f.pkg)
		}
	}
}

// Only the server's wiring reads the environment and its arguments, and nothing happens before main.
func TestFiles_LookOutsideOnlyInTheServer(t *testing.T) {
	outside := []string{"Getenv", "LookupEnv", "Environ", "Args", "Exit"}
	for _, f := range files(t) {
		if f.test || f.generated || in(f.dir, "test") {
			continue
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "init" && n.Recv == nil {
					t.Errorf("%s: init", f.set.Position(n.Pos()))
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "os" && slices.Contains(outside, n.Sel.Name) && f.dir != "server" && f.dir != "server/config" {
					t.Errorf("%s: os.%s outside the server's wiring", f.set.Position(n.Pos()), n.Sel.Name)
				}
			}
			return true
		})
	}
}

// Comments say nothing of a workplace; a nolint names its linter and its reason.
func TestFiles_ExplainWhatTheySilence(t *testing.T) {
	explained := regexp.MustCompile(`^//nolint:[a-z,]+ // \S`)
	for _, f := range files(t) {
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				if strings.HasPrefix(c.Text, "//nolint") && !f.generated && !explained.MatchString(c.Text) {
					t.Errorf("%s: %s", f.set.Position(c.Pos()), c.Text)
				}
			}
		}
	}
}

// Fake time has one door, which says why.
func TestFiles_EnterBubblesByOneDoor(t *testing.T) {
	doors := 0
	for _, f := range files(t) {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Test" {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "synctest" {
					if doors++; f.dir != "internal/bubbletest" {
						t.Errorf("%s: use bubbletest.Test", f.set.Position(n.Pos()))
					}
				}
			}
			return true
		})
	}
	if doors == 0 {
		t.Error("there is no door")
	}
}

// Each dependency was a decision: one of docs/adr says why, and what it costs.
func TestDependencies_AreExplained(t *testing.T) {
	var decisions strings.Builder
	names, err := filepath.Glob(root + "/docs/adr/0*.md")
	if err != nil || len(names) == 0 {
		t.Fatalf("no decisions: %v", err)
	}
	index, err := os.ReadFile(root + "/docs/adr/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		decisions.Write(text)
		if !strings.Contains(string(index), "("+filepath.Base(name)+")") {
			t.Errorf("docs/adr/README.md does not list %s", filepath.Base(name))
		}
	}
	required := regexp.MustCompile(`(?m)^\t(?:require )?([a-z0-9.]+/\S+)(?: v\S+)?$`)
	for _, mod := range []string{"go.mod", "tools/go.mod", "kafkasvc/record/tools/go.mod", "deploy/check/go.mod"} {
		text, err := os.ReadFile(filepath.Join(root, mod))
		if err != nil {
			t.Fatal(err)
		}
		found := required.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s: no dependency found", mod)
		}
		for _, match := range found {
			dependency := strings.TrimSuffix(match[1], "/cmd/golangci-lint")
			if !strings.Contains(decisions.String(), dependency) {
				t.Errorf("%s: no decision in docs/adr names %s", mod, dependency)
			}
		}
	}
}

// documents are those for people, by their path in the repository.
func documents(t *testing.T) []string {
	t.Helper()
	documents := []string{"README.md", "CHANGELOG.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(name, ".md") {
			rel, _ := filepath.Rel(root, name)
			documents = append(documents, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return documents
}

// Links within the documents lead to files that are there.
func TestDocuments_LinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
	for _, document := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range link.FindAllStringSubmatch(string(text), -1) {
			target := match[1]
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(document), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", document, target)
			}
		}
	}
}

// Tests that the documents name as proof are there, or at least one that begins like that (go test -run).
func TestDocuments_NameTestsThatExist(t *testing.T) {
	defined := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
	named := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`)
	var all []string
	err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		for _, match := range defined.FindAllStringSubmatch(string(text), -1) {
			all = append(all, match[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllString(string(text), -1) {
			if !slices.ContainsFunc(all, func(test string) bool { return strings.HasPrefix(test, name) }) {
				t.Errorf("%s names %s, and there is no such test", document, name)
			}
		}
	}
}
