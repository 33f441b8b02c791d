package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logMethods are the methods of a logger, with the number of arguments before the attributes. The
// last of these arguments is the message, except in With.
var logMethods = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1,
	"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2,
	"Log": 3, "LogAttrs": 3, "With": 0,
}

// attrs are the functions of package slog that return an attribute.
var attrs = []string{"Any", "Bool", "Duration", "Float64", "Int", "Int64", "Group", "String", "Time", "Uint64"}

// logFaults lists the log calls of the Go files below root whose message is not constant or whose
// attributes are not in the list of keys.
func logFaults(root fs.FS, keys []string) (faults []string, calls int, err error) {
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		fail := func(n ast.Node, text string) {
			faults = append(faults, fmt.Sprintf("%s:%d: %s", path, files.Position(n.Pos()).Line, text))
		}
		checkKey := func(n ast.Expr) {
			literal, ok := n.(*ast.BasicLit)
			if !ok {
				fail(n, "the key is not a literal")
				return
			}
			if key, _ := strconv.Unquote(literal.Value); !slices.Contains(keys, key) {
				fail(n, "unknown key "+key)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			receiver, name := lastName(method.X), method.Sel.Name
			before, logs := logMethods[name]
			switch {
			case receiver == "slog" && slices.Contains(attrs, name):
				checkKey(call.Args[0])
				return true
			case receiver == "panics" && name == "Log":
				before = 3
			case !strings.EqualFold(receiver, "log") || !logs || len(call.Args) < before:
				return true
			case before > 0 && !isConstant(call.Args[before-1]):
				fail(call, "figures belong into attributes, not into the message")
			}
			calls++
			for rest := call.Args[before:]; len(rest) > 0; {
				if _, isAttr := rest[0].(*ast.CallExpr); isAttr || call.Ellipsis.IsValid() && len(rest) == 1 {
					rest = rest[1:]
					continue
				}
				checkKey(rest[0])
				rest = rest[min(2, len(rest)):]
			}
			return true
		})
		return nil
	})
	return faults, calls, err
}

// lastName returns the last name of an expression such as c.cfg.Log; "" = there is none.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// isConstant reports whether a message is a literal or a name.
func isConstant(e ast.Expr) bool {
	switch e.(type) {
	case *ast.BasicLit, *ast.Ident, *ast.SelectorExpr:
		return true
	}
	return false
}

// documentedKeys returns the keys of the log records that docs/operating.md lists.
func documentedKeys(t *testing.T) (keys []string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## The log\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, item := range regexp.MustCompile("(?m)^- (`[^:]*`): ").FindAllStringSubmatch(section, -1) {
		keys = append(keys, regexp.MustCompile(`\w+`).FindAllString(item[1], -1)...)
	}
	return keys
}

// Each log record has a constant message, and its attributes have the keys that docs/operating.md
// lists: the same thing has the same key everywhere.
func TestLogRecordsUseOneVocabulary(t *testing.T) {
	keys := documentedKeys(t)
	faults, calls, err := logFaults(os.DirFS(filepath.Join("..", "..")), keys)
	if err != nil || calls < 80 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}
