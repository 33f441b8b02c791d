package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// The limits for the largest package, file, function and type. Tests are not measured.
const (
	mostPackageLines  = 4000
	mostMainLines     = 1500 // cmd/poold
	mostFileLines     = 400
	mostFunctionLines = 60
	mostMethods       = 30
)

// No package, file, function or type is too large. With -v the test prints the number of lines of
// each package and their sum.
func TestSizes(t *testing.T) {
	testkit.WithoutRace(t)
	sizes, err := sizesBelow(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(sizes) < 1000 {
		t.Fatalf("only %d packages, files, functions and types were found", len(sizes))
	}
	var table strings.Builder
	sum := 0
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		size := sizes[name]
		if size.is > size.most {
			t.Errorf("%s has %d %s, more than %d", name, size.is, size.of, size.most)
		}
		if size.isPackage {
			fmt.Fprintf(&table, "\n%6d  %s", size.is, name)
			sum += size.is
		}
	}
	t.Logf("lines of Go that ship, by package:%s\n%6d  in all", table.String(), sum)
}

// measure counts the lines of packages, files and functions, and the methods of types.
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
		"x/y": {is: 11, most: mostPackageLines, of: "lines", isPackage: true}, "x/y/z.go": {is: 11, most: mostFileLines, of: "lines"},
		"x/y.a": {is: 2, most: mostMethods, of: "methods"}, "x/y.a.one": {is: 1, most: mostFunctionLines, of: "lines"},
		"x/y.a.two": {is: 2, most: mostFunctionLines, of: "lines"}, "x/y.alone": {is: 3, most: mostFunctionLines, of: "lines"},
	}
	if !maps.Equal(sizes, want) {
		t.Errorf("%v, want %v", sizes, want)
	}
}

// size is the size and the limit of a package, file, function or type.
type size struct {
	is, most  int
	of        string
	isPackage bool
}

// helps matches packages that only tests, benchmarks and scripts import.
var helps = regexp.MustCompile(`^(bench|scripts)/|test$|testkit$`)

// sizesBelow measures all Go files in the folder root except tests and the packages that only tests
// need.
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
		if helps.MatchString(path.Dir(filepath.ToSlash(name))) {
			return nil
		}
		return measure(sizes, filepath.ToSlash(name), source)
	})
	return sizes, err
}

// measure adds the sizes of one file. If files for different builds have functions with the same
// name, only the largest function counts.
func measure(sizes map[string]size, name string, source []byte) error {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	line := func(p token.Pos) int { return files.Position(p).Line }
	lines, in := bytes.Count(source, []byte("\n")), path.Dir(name)
	most := mostPackageLines
	if in == "cmd/poold" {
		most = mostMainLines
	}
	sizes[in] = size{is: sizes[in].is + lines, most: most, of: "lines", isPackage: true}
	sizes[name] = size{is: lines, most: mostFileLines, of: "lines"}
	for _, declaration := range file.Decls {
		function, is := declaration.(*ast.FuncDecl)
		if !is {
			continue
		}
		scope := path.Dir(name)
		if receiver := receiverOf(function); receiver != "" {
			scope += "." + receiver
			sizes[scope] = size{is: sizes[scope].is + 1, most: mostMethods, of: "methods"}
		}
		scope += "." + function.Name.Name
		length := line(function.End()) - line(function.Pos()) + 1
		sizes[scope] = size{is: max(length, sizes[scope].is), most: mostFunctionLines, of: "lines"}
	}
	return nil
}

// receiverOf returns the receiver type of a method, or "" for a function.
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
