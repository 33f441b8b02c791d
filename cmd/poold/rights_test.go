package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// eachSource calls a function with the path and the text of each file of the internal packages that is no test.
func eachSource(t *testing.T, do func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, "internal"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		do(path, string(text))
		return err
	})
	testkit.NoError(t, err)
}

// The documented rights of Redis' user have each command of the scripts.
func TestRightsOfScripts(t *testing.T) {
	rights, called := redistest.Rights(t), regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)
	eachSource(t, func(path, text string) {
		for _, found := range called.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(rights, "+"+strings.ToLower(found[1])) {
				t.Errorf("%s calls %s, which the rights in docs/configuration.md lack", path, found[1])
			}
		}
	})
}
