package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"poold/internal/refill/policy"
)

// readDocs returns README and all pages of docs except the decisions. The decisions are omitted
// because they also name features that no longer exist.
func readDocs(t *testing.T) (text string) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	for _, page := range append(pages, filepath.Join("..", "..", "README.md")) {
		if filepath.Base(page) == "decisions.md" {
			continue
		}
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		text += string(data)
	}
	return text
}

// README and docs name every command, and name no command or flag that does not exist. `poold help`
// explains the flags.
func TestDocsNameFlagsAndCommands(t *testing.T) {
	docs := readDocs(t)
	flags, names := map[string]bool{"--build-arg": true, "--help": true}, map[string]bool{"man": true, "help": true, "completion": true}
	for _, command := range allCommands() {
		path := command.CommandPath()
		names[strings.Fields(path)[1]] = true
		if !strings.Contains(docs, path) {
			t.Errorf("no page names %s", path)
		}
		command.Flags().VisitAll(func(f *pflag.Flag) { flags["--"+f.Name] = true })
	}
	for _, found := range regexp.MustCompile("[`\\[](--[a-z-]+)").FindAllStringSubmatch(docs, -1) {
		if !flags[found[1]] {
			t.Errorf("the docs name %s, which poold does not know", found[1])
		}
	}
	for _, found := range regexp.MustCompile("`poold ([a-z-]+)").FindAllStringSubmatch(docs, -1) {
		if !names[found[1]] {
			t.Errorf("the docs name `poold %s`, which there is not", found[1])
		}
	}
}

// A line of prose has at most 120 characters. Lines of tables, examples and links may be longer.
func TestDocsAreWrapped(t *testing.T) {
	const most = 120
	inside := false
	text := readDocs(t)
	for _, other := range []string{"CHANGELOG.md", "docs/decisions.md"} {
		data, err := os.ReadFile(filepath.Join("..", "..", other))
		if err != nil {
			t.Fatal(err)
		}
		text += string(data)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		inside = inside != fence
		if inside || fence || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "![") {
			continue
		}
		if utf8.RuneCountInString(line) > most {
			t.Errorf("more than %d characters: %s", most, line)
		}
	}
}

// The table of docs/refill.md has a row for each built-in demand. scripts/refill-table makes it.
func TestRefillPageHasEachDemand(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "refill.md"))
	if err != nil {
		t.Fatal(err)
	}
	models := regexp.MustCompile(`([a-z]+):[A-Z]`).FindAllStringSubmatch(policy.DemandHelp, -1)
	if len(models) < 8 {
		t.Fatalf("models: %v", models)
	}
	for _, m := range models {
		if m[1] != "steady" && !strings.Contains(string(text), "\n| `"+m[1]+":") { // steady is another word for poisson
			t.Errorf("there is no row of %s", m[1])
		}
	}
}
