package targets

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/*.want from what the code says; review the difference")

// canary stands for a secret. No problem may contain this text.
const canary = "CANARY"

// environment reads the lines "# env NAME=value" of a test file.
func environment(data []byte) References {
	env := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^# env (\w+)=(.*)$`).FindAllSubmatch(data, -1) {
		env[string(m[1])] = string(m[2])
	}
	return References{Variable: func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}}
}

// Parse returns the exact messages of every invalid test file.
func TestBadFilesGiveExactProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/bad-*.yaml")
	if err != nil || len(files) < 50 {
		t.Fatalf("found %d bad files, err %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			set, err := Parse("pools.yaml", data, environment(data))
			if err == nil || set != nil {
				t.Fatalf("the file was accepted: %+v", set)
			}
			got := err.Error() + "\n"
			if strings.Contains(got, canary) {
				t.Errorf("a problem shows a secret:\n%s", got)
			}
			wantFile := strings.TrimSuffix(file, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(wantFile, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(wantFile)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// The problem of a syntax error has the right line.
func TestSyntaxErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"server: |\n  x\n\tlisten: 127.0.0.1:8080\n": "pools.yaml:3: a tab indents the line: indent with spaces",
		"a: x}\nb: [${X}]\n":                         `pools.yaml:2: a reference inside { } or [ ] must be quoted: "${NAME}"`,
		strings.Repeat("[", 10001):                   "pools.yaml:1: brackets or lists nest too deeply",
	} {
		if _, err := Parse("pools.yaml", []byte(text), References{}); err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// For a file with very many faults, Parse returns at most 200 problems and the number of the
// remaining faults.
func TestProblemsAreCapped(t *testing.T) {
	_, err := Parse("pools.yaml", []byte(minimal()+strings.Repeat("    x y: 1\n    z: 2\n", 400)), References{})
	var problems Problems
	if !errors.As(err, &problems) || len(problems) != 201 {
		t.Fatalf("%d problems", len(problems))
	}
	if got, want := problems[200].String(), fmt.Sprintf("pools.yaml:%d: and 600 more problems", problems[199].Line+1); got != want {
		t.Errorf("the last one says %q, want %q", got, want)
	}
}
