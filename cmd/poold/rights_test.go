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

// The documented rights of Redis' user have each command of the scripts.
func TestRightsOfScripts(t *testing.T) {
	rights, called := redistest.Rights(t), regexp.MustCompile(`redis\.p?call\('([A-Z]+)'`)
	err := filepath.WalkDir(filepath.Join("..", "..", "internal"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range called.FindAllStringSubmatch(string(text), -1) {
			if !slices.Contains(rights, "+"+strings.ToLower(found[1])) {
				t.Errorf("%s calls %s, which the rights in docs/configuration.md lack", path, found[1])
			}
		}
		return err
	})
	testkit.NoError(t, err)
}
