package main

import (
	"fmt"

	"github.com/chathome/chathome/graph"
)

// schema prints the SDL with its descriptions, for code generators.
func (p process) schema() error {
	sdl, err := graph.SDL()
	if err != nil {
		return fmt.Errorf("read the schema: %w", err)
	}
	if _, err := fmt.Fprint(p.out, sdl); err != nil {
		return fmt.Errorf("print the schema: %w", err)
	}
	return nil
}
