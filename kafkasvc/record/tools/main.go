// Command tools turns the .proto files of logpb into Go code: `go generate ./kafkasvc/record/...`.
//
// It is a module of its own, so that the compiler is pinned here and never becomes a dependency of the server.
// It needs neither protoc nor a plugin on the PATH.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: tools ROOT DIR (generates code beside every .proto file in ROOT/DIR)")
		os.Exit(2)
	}
	if err := generate(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// generate names the files by their path below root: a process knows a .proto file by that name, which must be
// unique in it.
func generate(root, dir string) error {
	paths, err := filepath.Glob(filepath.Join(root, dir, "*.proto"))
	if err != nil {
		return err
	}
	var names []string
	for _, p := range paths {
		names = append(names, filepath.ToSlash(filepath.Join(dir, filepath.Base(p))))
	}
	compiler := protocompile.Compiler{
		Resolver:       &protocompile.SourceResolver{ImportPaths: []string{root}},
		SourceInfoMode: protocompile.SourceInfoStandard, // comments go into the code
	}
	files, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	var descriptors []*descriptorpb.FileDescriptorProto
	for _, f := range files {
		descriptors = append(descriptors, protoutil.ProtoFromFileDescriptor(f))
	}
	parameter := "paths=source_relative"
	plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		ProtoFile:      descriptors,
		Parameter:      &parameter,
	})
	if err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	plugin.SupportedFeatures = internal_gengo.SupportedFeatures
	for _, f := range plugin.Files {
		if f.Generate {
			internal_gengo.GenerateFile(plugin, f)
		}
	}
	answer := plugin.Response()
	if answer.Error != nil {
		return fmt.Errorf("generate: %s", *answer.Error)
	}
	for _, f := range answer.File {
		if err := os.WriteFile(filepath.Join(root, f.GetName()), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
