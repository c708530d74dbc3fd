package graph_test

import (
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/chathome/chathome/graph"
)

func TestImmutable_NamesFieldsThatExist_AndNoneBehindTheGate(t *testing.T) {
	schema := graph.New(nil).Schema()
	shareable := 0
	for _, d := range schema.Types {
		for _, f := range d.Fields {
			if graph.Immutable(&ast.Field{Name: f.Name, ObjectDefinition: d}) {
				shareable++
			}
		}
	}
	const listed = 22 // entries of the list in sharing.go: one that is misspelt is not found in the schema
	if shareable != listed {
		t.Errorf("%d fields are shareable, %d are listed", shareable, listed)
	}
	for _, f := range []struct{ of, name string }{
		{"ChatRoom", "message"}, {"ChatRoom", "messages"}, {"Shard", "state"}, {"ShardNotOwned", "owner"}, {"Instance", "url"},
	} {
		if graph.Immutable(&ast.Field{Name: f.name, ObjectDefinition: schema.Types[f.of]}) {
			t.Errorf("%s.%s is shared", f.of, f.name)
		}
	}
}
