package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The image reports its version and commit. The variables that the Dockerfile sets exist in the
// program and are used.
func TestVersionOfTheImage(t *testing.T) {
	dockerfile, err := os.ReadFile(filepath.Join("..", "..", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("version.go")
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]string{}
	for _, found := range regexp.MustCompile(`-X main\.(\w+)=\$\{(\w+)\}`).FindAllStringSubmatch(string(dockerfile), -1) {
		set[found[1]] = found[2]
		if !regexp.MustCompile(`(?m)^ARG `+found[2]+`=`).Match(dockerfile) || !regexp.MustCompile(`(?m)^var .*\b`+found[1]+`\b.* = "`).Match(source) {
			t.Errorf("%s is no argument, or %s no variable", found[2], found[1])
		}
	}
	if set["version"] != "VERSION" || set["revision"] != "COMMIT" {
		t.Errorf("the Dockerfile sets %v", set)
	}
	revision = "0123abcd"
	defer func() { revision = "" }()
	if _, said, _ := runCommand(t, nil, "version"); !strings.HasPrefix(said, "poold dev, commit 0123abcd, go1.") {
		t.Error(said)
	}
}
