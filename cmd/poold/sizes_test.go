package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"poold/internal/testkit"
)

// sizeLimits is the limit on each sum of the project. A limit falls with the sum, to one percent above it, and rises
// only for a new feature.
// Functions, files and packages have no limits.
var sizeLimits = []struct {
	what, counts string
	limit        int
}{
	{"daemon", "Go lines of the packages in poold, without Lua", 21900},
	{"lua", "lines of scripts", 810},
	{"web", "lines of templates, styles and scripts of the page, without htmx", 425},
	{"helpers", "Go lines of test packages, scripts and benches", 2980},
	{"tests", "Go lines of _test.go files", 27500},
	{"words", "words of Markdown", 24100},
}

// The table of sizes holds. With -v the test prints the table and the lines of each package in the daemon.
func TestSizes(t *testing.T) {
	testkit.WithoutRace(t)
	root, err := filepath.Abs(filepath.Join("..", ".."))
	testkit.NoError(t, err)
	sums, packages, err := sizesBelow(root)
	testkit.NoError(t, err)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range sizeLimits {
		_, _ = fmt.Fprintf(table, "%s\t%d\tof %d\t %s\n", row.what, sums[row.what], row.limit, row.counts)
		if sums[row.what] == 0 || sums[row.what] > row.limit {
			t.Errorf("%s: %d, want 1 to %d %s; a change that needs more raises the limit here, and its commit says why",
				row.what, sums[row.what], row.limit, row.counts)
		}
	}
	names := make([]string, 0, len(packages))
	for name := range packages {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return packages[b] - packages[a] })
	for _, name := range names {
		_, _ = fmt.Fprintf(table, "%s\t%d\t\t\n", name, packages[name])
	}
	_ = table.Flush()
	t.Logf("a line counts if it has code:\n%s", text.String())
}

// A line counts if it has a token other than a comment. The lines of a script in a raw string count as Lua.
func TestSizesAreMeasured(t *testing.T) {
	const source = "package p // a\n\n// b\nvar s = `\n-- c\nredis.call('GET')\n`\nvar r = `\n\n`\n/*\n*/ var i int\n"
	if code, lua := goLines([]byte(source)); code != 6 || lua != 1 {
		t.Errorf("%d lines of Go and %d of Lua, want 6 and 1", code, lua)
	}
}

// sizesBelow counts all files below root except testdata. The second result has the lines of each
// package of the daemon.
func sizesBelow(root string) (sums, packages map[string]int, err error) {
	list := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.Dir}}{{end}}", "./cmd/poold")
	list.Dir = root
	deps, err := list.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("list the packages of the daemon: %w", err)
	}
	inDaemon := strings.Fields(string(deps))
	sums, packages = map[string]int{}, map[string]int{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if len(entry.Name()) > 1 && entry.Name()[0] == '.' ||
				slices.Contains([]string{"node_modules", "testdata"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		kind := sizeKind(root, path, inDaemon)
		if kind == "" {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch kind {
		case "words":
			sums[kind] += len(strings.Fields(string(content)))
		case "lua", "web":
			sums[kind] += textLines(string(content))
		default:
			code, lua := goLines(content)
			sums[kind] += code
			if kind == "daemon" {
				packages[strings.TrimPrefix(filepath.Dir(path), root+"/")] += code
			}
			if kind != "tests" {
				sums["lua"] += lua
			}
		}
		return nil
	})
	return sums, packages, err
}

// sizeKind returns the row of the table that counts a file, or "".
func sizeKind(root, path string, inDaemon []string) string {
	switch extension := filepath.Ext(path); {
	case strings.HasSuffix(path, "_test.go"):
		return "tests"
	case extension == ".go" && slices.Contains(inDaemon, filepath.Dir(path)):
		return "daemon"
	case extension == ".go":
		return "helpers"
	case extension == ".lua":
		return "lua"
	case extension == ".md":
		return "words"
	case strings.HasPrefix(path, filepath.Join(root, "internal")+"/") && !strings.Contains(path, "htmx") &&
		slices.Contains([]string{".js", ".css", ".html", ".tmpl", ".gohtml"}, extension):
		return "web"
	}
	return ""
}

// goLines counts the lines of a Go file that have code. The lines of scripts in raw strings count as Lua.
func goLines(source []byte) (code, lua int) {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var scan scanner.Scanner
	scan.Init(file, source, nil, 0)
	seen := map[int]bool{}
	for {
		position, tok, text := scan.Scan()
		switch {
		case tok == token.EOF:
			return len(seen), lua
		case tok == token.SEMICOLON && text == "\n":
			continue
		case tok == token.STRING && text[0] == '`' && strings.Contains(text, "redis.call"):
			lua += textLines(strings.Trim(text, "`"))
			text = ""
		}
		for line := range 1 + strings.Count(text, "\n") {
			seen[files.Position(position).Line+line] = true
		}
	}
}

// textLines counts the lines of a text that are neither empty nor a Lua comment.
func textLines(text string) (lines int) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			lines++
		}
	}
	return lines
}
