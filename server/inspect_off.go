//go:build !inspect

package main

// inspect is for harnesses that build the program with the tag inspect. In the product it is nothing.
func inspect() {}
