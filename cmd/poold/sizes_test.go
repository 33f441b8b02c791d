package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// What can be read at once: tests are not measured.
const (
	mostFileLines     = 400
	mostFunctionLines = 60
	mostMethods       = 30
)

// No file, function or type is too large to be read at once.
func TestSizes(t *testing.T) {
	testkit.WithoutRace(t)
	sizes, err := sizesBelow(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(sizes) < 1000 {
		t.Fatalf("only %d files, functions and types were found", len(sizes))
	}
	for name, size := range sizes {
		if size.is > size.most {
			t.Errorf("%s has %d %s, more than %d", name, size.is, size.of, size.most)
		}
	}
}

// Files, functions and the methods of a type are counted.
func TestSizesAreMeasured(t *testing.T) {
	const source = `package p

type a[T any] struct{}

func (a[T]) one() {}
func (*a[T]) two() {
}

func alone() {
	_ = 0
}
`
	sizes := make(map[string]size)
	if err := measure(sizes, "x/y/z.go", []byte(source)); err != nil {
		t.Fatal(err)
	}
	want := map[string]size{
		"x/y/z.go": {11, mostFileLines, "lines"}, "x/y.a": {2, mostMethods, "methods"},
		"x/y.a.one": {1, mostFunctionLines, "lines"}, "x/y.a.two": {2, mostFunctionLines, "lines"}, "x/y.alone": {3, mostFunctionLines, "lines"},
	}
	if !maps.Equal(sizes, want) {
		t.Errorf("%v, want %v", sizes, want)
	}
}

// size is how large a file, function or type is and may be.
type size struct {
	is, most int
	of       string
}

// sizesBelow measures all files of Go below a directory but the tests.
func sizesBelow(root string) (map[string]size, error) {
	sizes := make(map[string]size)
	err := filepath.WalkDir(root, func(where string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(where, ".go") || strings.HasSuffix(where, "_test.go") {
			return err
		}
		source, err := os.ReadFile(where)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, where)
		if err != nil {
			return err
		}
		return measure(sizes, filepath.ToSlash(name), source)
	})
	return sizes, err
}

// measure adds what a file holds. Of two functions of one name, in files for different
// builds, the larger one counts.
func measure(sizes map[string]size, name string, source []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	line := func(p token.Pos) int { return files.Position(p).Line }
	sizes[name] = size{bytes.Count(source, []byte("\n")), mostFileLines, "lines"}
	for _, declaration := range file.Decls {
		function, is := declaration.(*ast.FuncDecl)
		if !is {
			continue
		}
		scope := path.Dir(name)
		if receiver := receiverOf(function); receiver != "" {
			scope += "." + receiver
			sizes[scope] = size{sizes[scope].is + 1, mostMethods, "methods"}
		}
		scope += "." + function.Name.Name
		length := line(function.End()) - line(function.Pos()) + 1
		sizes[scope] = size{max(length, sizes[scope].is), mostFunctionLines, "lines"}
	}
	return nil
}

// receiverOf is the type that a function is a method of, "" for none.
func receiverOf(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return ""
	}
	name := ""
	ast.Inspect(function.Recv.List[0].Type, func(n ast.Node) bool {
		if id, is := n.(*ast.Ident); is && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}
