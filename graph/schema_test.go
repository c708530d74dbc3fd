package graph_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/chathome/chathome/graph"
)

func load(t *testing.T, name, text string) *ast.Schema {
	t.Helper()
	s, err := gqlparser.LoadSchema(&ast.Source{Name: name, Input: text})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// elements are all names and types of a schema, one a line, descriptions aside.
func elements(s *ast.Schema) []string {
	var all []string
	for _, d := range s.Types {
		if d.BuiltIn {
			continue
		}
		all = append(all, fmt.Sprintf("%s %s interfaces %v types %v", d.Kind, d.Name, d.Interfaces, d.Types))
		for i, f := range d.Fields {
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			line := fmt.Sprintf("%s[%d].%s: %s", d.Name, i, f.Name, f.Type)
			for _, a := range f.Arguments {
				line += fmt.Sprintf(" %s: %s = %v", a.Name, a.Type, a.DefaultValue)
			}
			all = append(all, line)
		}
		for _, v := range d.EnumValues {
			all = append(all, d.Name+"."+v.Name)
		}
	}
	slices.Sort(all)
	return all
}

func TestSchema_IsTheContractNameForName(t *testing.T) {
	contract, err := os.ReadFile("testdata/contract.graphqls")
	if err != nil {
		t.Fatal(err)
	}
	sdl, err := graph.SDL()
	if err != nil {
		t.Fatal(err)
	}
	want := elements(load(t, "contract", string(contract)))
	for what, got := range map[string][]string{
		"SDL": elements(load(t, "sdl", sdl)), "executable schema": elements(graph.New(nil).Schema()),
	} {
		for _, line := range got {
			if !slices.Contains(want, line) {
				t.Errorf("%s has, but the contract does not: %s", what, line)
			}
		}
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("the contract has, but the %s does not: %s", what, line)
			}
		}
	}
}

func TestSchema_DescribesEveryElement(t *testing.T) {
	sdl, err := graph.SDL()
	if err != nil {
		t.Fatal(err)
	}
	described := func(what, text string) {
		if len(strings.Fields(text)) < 2 {
			t.Errorf("%s has no description", what)
		}
	}
	for _, d := range load(t, "sdl", sdl).Types {
		if d.BuiltIn {
			continue
		}
		described(d.Name, d.Description)
		for _, f := range d.Fields {
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			described(d.Name+"."+f.Name, f.Description)
			for _, a := range f.Arguments {
				described(d.Name+"."+f.Name+"("+a.Name+")", a.Description)
			}
		}
		for _, v := range d.EnumValues {
			described(d.Name+"."+v.Name, v.Description)
		}
	}
}
