package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"poold/internal/refill/policy"
)

// written is README and everything of docs but why things are as they are.
func written(t *testing.T) (text string) {
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

// README and docs name every flag and every command that there is, and no other.
func TestDocsNameFlagsAndCommands(t *testing.T) {
	docs := written(t)
	none := func(string) (string, bool) { return "", false }
	flags := map[string]bool{}
	for _, name := range []string{"serve", "check", "token", "solve", "status", "dead-letters", "history", "history init", "simulate", "healthcheck", "schema", "version"} {
		var out strings.Builder
		if code := run(t.Context(), append(strings.Fields(name), "--help"), none, &out, &out); code != exitDone {
			t.Errorf("%s --help: exit %d", name, code)
		}
		for _, found := range regexp.MustCompile(`(?m)^  -([a-z-]+)`).FindAllStringSubmatch(out.String(), -1) {
			flags["--"+found[1]] = true
		}
		if name != "serve" && !strings.Contains(docs, "poold "+name) {
			t.Errorf("no page names `poold %s`", name)
		}
	}
	if len(flags) < 8 {
		t.Fatalf("--help shows only %v", flags)
	}
	for flag := range flags {
		if !strings.Contains(docs, "`"+flag) && !strings.Contains(docs, "["+flag) {
			t.Errorf("no page names %s", flag)
		}
	}
	var known []string
	for flag := range flags {
		known = append(known, flag)
	}
	// Flags of other programs in the examples.
	known = append(known, "--build-arg")
	for _, found := range regexp.MustCompile("[`\\[](--[a-z-]+)").FindAllStringSubmatch(docs, -1) {
		if !slices.Contains(known, found[1]) {
			t.Errorf("the docs name %s, which poold does not know", found[1])
		}
	}
}

// docs/refill.md shows a picture for each built-in demand and none that is not
// there; scripts/plots made them.
func TestRefillPageHasItsPlots(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "refill.md"))
	if err != nil {
		t.Fatal(err)
	}
	var linked []string
	for _, link := range regexp.MustCompile(`\(plots/([a-z]+)\.svg\)`).FindAllStringSubmatch(string(text), -1) {
		linked = append(linked, link[1])
		if _, err := os.Stat(filepath.Join("..", "..", "docs", "plots", link[1]+".svg")); err != nil {
			t.Error(err)
		}
	}
	models := regexp.MustCompile(`([a-z]+):[A-Z]`).FindAllStringSubmatch(policy.DemandHelp, -1)
	if len(models) < 8 {
		t.Fatalf("models: %v", models)
	}
	for _, m := range models {
		if m[1] != "steady" && !slices.Contains(linked, m[1]) { // steady is another word for poisson
			t.Errorf("there is no picture of %s", m[1])
		}
	}
}
