// Command branches lists the error branches that no test enters: bodies of if statements and cases
// of switch statements whose condition reads an error. The command skips packages that only support
// tests. The arguments are coverage profiles of go test. With GOCOVERDIR, the coverage includes
// processes that tests start, except killed processes.
//
//	mkdir covered
//	GOCOVERDIR=$PWD/covered go test -short -coverpkg ./... -coverprofile cover.out ./...
//	go tool covdata textfmt -i covered -o processes.out
//	go run ./scripts/branches cover.out processes.out
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

const module = "poold/"

// position is a line and a column of a file, both from 1.
type position struct{ line, column int }

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: branches PROFILE ...")
		os.Exit(2)
	}
	if err := list(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// list prints the error branches that were not entered according to any profile.
func list(profiles []string) error {
	entered := map[string]map[position]int{}
	for _, profile := range profiles {
		if err := readProfile(profile, entered); err != nil {
			return err
		}
	}
	all, missed := 0, 0
	for _, file := range slices.Sorted(maps.Keys(entered)) {
		if folder := path.Base(path.Dir(file)); strings.HasSuffix(folder, "test") || folder == "testkit" || strings.HasPrefix(file, "scripts/") {
			continue
		}
		branches, err := errorBranches(file)
		if err != nil {
			return err
		}
		for _, b := range branches {
			n, known := entered[file][b.at]
			if !known {
				continue // the body is empty, so it has no block in the profile
			}
			all++
			if n == 0 {
				missed++
				fmt.Printf("%s:%d: %s\n", file, b.at.line, b.condition)
			}
		}
	}
	fmt.Printf("%d of %d error branches are entered by no test\n", missed, all)
	return nil
}

// readProfile adds the counts of a profile to a map. The keys of the map are a file and the start
// of a block; the value is the number of times that the block ran.
func readProfile(profile string, entered map[string]map[position]int) error {
	f, err := os.Open(profile) //nolint:gosec // the user chose the file
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		file, block, ok := strings.Cut(strings.TrimPrefix(lines.Text(), module), ":")
		if !ok || file == "mode" {
			continue
		}
		var from, to position
		var statements, count int
		if _, err := fmt.Sscanf(block, "%d.%d,%d.%d %d %d", &from.line, &from.column, &to.line, &to.column, &statements, &count); err != nil {
			return fmt.Errorf("%s: %q: %w", profile, lines.Text(), err)
		}
		if entered[file] == nil {
			entered[file] = map[position]int{}
		}
		entered[file][from] += count
	}
	return lines.Err()
}

// branch is a block that runs only after an error.
type branch struct {
	at        position // where the block starts
	condition string
}

// errorBranches returns the error branches of a file, sorted by line.
func errorBranches(file string) (list []branch, err error) {
	text, err := os.ReadFile(file) //nolint:gosec // of a profile
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, file, text, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if readsError(n.Cond) {
				list = append(list, newBranch(files, text, n.Body.Lbrace, n.Cond))
			}
		case *ast.CaseClause:
			if len(n.List) > 0 && slices.ContainsFunc(n.List, readsError) {
				list = append(list, newBranch(files, text, n.Colon, n.List[0]))
			}
		}
		return true
	})
	slices.SortFunc(list, func(a, b branch) int { return cmp.Compare(a.at.line, b.at.line) })
	return list, nil
}

func newBranch(files *token.FileSet, text []byte, start token.Pos, condition ast.Expr) branch {
	at := files.Position(start)
	from, to := files.Position(condition.Pos()).Offset, files.Position(condition.End()).Offset
	return branch{position{at.Line, at.Column}, string(text[from:to])}
}

// readsError reports whether a condition compares an error with nil, or calls a function of package errors.
func readsError(condition ast.Expr) (found bool) {
	ast.Inspect(condition, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.NEQ && isNil(n.Y) && isError(n.X) {
				found = true
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "errors" {
				found = true
			}
		}
		return !found
	})
	return found
}

func isNil(e ast.Expr) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == "nil"
}

// isError reports whether the name of a variable or field suggests that it holds an error.
func isError(e ast.Expr) bool {
	var name string
	switch e := e.(type) {
	case *ast.Ident:
		name = e.Name
	case *ast.SelectorExpr:
		name = e.Sel.Name
	}
	return name == "err" || strings.HasSuffix(name, "Err") || strings.HasPrefix(name, "err")
}
