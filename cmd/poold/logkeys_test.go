package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"poold/internal/testkit"
)

// The keys of log records that the linter allows are those that docs/operating.md lists: the same thing has the same
// key everywhere.
func TestLogRecordsUseOneVocabulary(t *testing.T) {
	var settings struct {
		Linters struct {
			Settings struct {
				Sloglint struct {
					Keys []string `yaml:"allowed-keys"`
				}
			}
		}
	}
	file, err := os.ReadFile(filepath.Join("..", "..", ".golangci.yml"))
	testkit.NoError(t, err)
	testkit.NoError(t, yaml.Unmarshal(file, &settings))
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "operating.md"))
	testkit.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## The log\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var keys []string
	for _, item := range regexp.MustCompile("(?m)^- (`[^:]*`): ").FindAllStringSubmatch(section, -1) {
		keys = append(keys, regexp.MustCompile(`\w+`).FindAllString(item[1], -1)...)
	}
	if allowed := settings.Linters.Settings.Sloglint.Keys; len(keys) == 0 || !slices.Equal(keys, allowed) {
		t.Errorf("docs/operating.md lists %q, and .golangci.yml allows %q", keys, allowed)
	}
}
