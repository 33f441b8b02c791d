package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"poold/internal/testkit"
)

// readTable reads a file with a name and its packages in each line. An indented line continues the line before.
func readTable(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.NoError(t, err)
	table := map[string][]string{}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\n ", " ")) {
		name, packages, _ := strings.Cut(line, ":")
		table[name] = strings.Fields(packages)
	}
	return table
}

// Every import between packages of this module must be in testdata/imports.txt, and each external library in
// testdata/libraries.txt, with the packages that may import it.
func TestImportTable(t *testing.T) {
	mayImport, livesIn := readTable(t, "testdata/imports.txt"), readTable(t, "testdata/libraries.txt")
	// Test files are not listed, and packages that have nothing else are left out.
	list := exec.Command("go", "list", "-f", `{{if .GoFiles}}{{.ImportPath}} {{join .Imports " "}}{{end}}`, "./...")
	list.Dir = root
	packages, err := list.Output()
	testkit.NoError(t, err)
	seen := map[string]bool{}
	for line := range strings.Lines(string(packages)) {
		imports := strings.Fields(line)
		dir := strings.TrimPrefix(imports[0], "poold/")
		if _, known := mayImport[dir]; !known {
			t.Errorf("package %s is not in the import table", dir)
		}
		seen[dir] = true
		for _, name := range imports[1:] {
			checkImport(t, dir, name, mayImport[dir], livesIn)
		}
	}
	for dir := range mayImport {
		if !seen[dir] {
			t.Errorf("the import table lists %s, which does not exist", dir)
		}
	}
}

func checkImport(t *testing.T, dir, name string, allowed []string, livesIn map[string][]string) {
	t.Helper()
	if own, ours := strings.CutPrefix(name, "poold/"); ours {
		if !slices.Contains(allowed, own) {
			t.Errorf("%s may not import %s", dir, own)
		}
		return
	}
	if first, _, _ := strings.Cut(name, "/"); !strings.Contains(first, ".") {
		return // a package of the standard library
	}
	for library, homes := range livesIn {
		if name == library || strings.HasPrefix(name, library+"/") {
			if !slices.Contains(homes, dir) {
				t.Errorf("%s lives in %s, not in %s", library, strings.Join(homes, ", "), dir)
			}
			return
		}
	}
	t.Errorf("library %s of %s is not in the import table", name, dir)
}

// The name of a type stands in at most two packages, so that it says the role. Only Config may stand in more, and
// the generator of clients/go chooses its own names.
func TestTypeNames(t *testing.T) {
	homes := map[string][]string{} // by the name of a type
	for dir := range readTable(t, "testdata/imports.txt") {
		files, _ := filepath.Glob(filepath.Join(root, dir, "*.go")) // the pattern is valid
		for _, path := range files {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			testkit.NoError(t, err)
			for node := range ast.Preorder(file) {
				is, ok := node.(*ast.TypeSpec)
				if ok && dir != "clients/go" && !strings.HasSuffix(path, "_test.go") && !slices.Contains(homes[is.Name.Name], dir) {
					homes[is.Name.Name] = append(homes[is.Name.Name], dir)
				}
			}
		}
	}
	for name, in := range homes {
		if len(in) > 2 && name != "Config" {
			slices.Sort(in)
			t.Errorf("the type name %s stands in %s: find words that say the roles", name, strings.Join(in, ", "))
		}
	}
}
