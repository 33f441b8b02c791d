package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"poold/internal/refill/policy"
	"poold/internal/testkit"
)

// readDocs returns the pages of the root folder and of docs, by path, and all texts as one.
func readDocs(t *testing.T) (pages map[string]string, text string) {
	t.Helper()
	pages = map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		for _, file := range files {
			data, failed := os.ReadFile(file)
			err = errors.Join(err, failed)
			pages[filepath.ToSlash(strings.TrimPrefix(file, root+string(filepath.Separator)))] = string(data)
			text += string(data)
		}
		if err != nil || len(files) < 4 || len(files) > 14 {
			t.Fatalf("%d pages %s: %v", len(files), pattern, err)
		}
	}
	return pages, text
}

// docs/redis.md lists each key that poold writes beside the stock, by the first word of its name.
func TestDocsListTheKeysOfRedis(t *testing.T) {
	pages, _ := readDocs(t)
	names := regexp.MustCompile(`'@([a-z]+)[:']|p\.key\("([a-z]+)"|Prefix \+ "\}:([a-z]+)"`)
	found := 0
	eachSource(t, func(path, text string) {
		for _, match := range names.FindAllStringSubmatch(text, -1) {
			name := strings.Join(match[1:], "")
			if found++; !regexp.MustCompile("[`:]" + name + "[`:]").MatchString(pages["docs/redis.md"]) {
				t.Errorf("%s: docs/redis.md does not list the key %s", path, name)
			}
		}
	})
	testkit.AtLeast(t, "keys in the code", found, 100)
}

// Each link leads to a file and to one of its headings.
func TestDocsLinksLead(t *testing.T) {
	pages, _ := readDocs(t)
	for page, text := range pages {
		for _, link := range regexp.MustCompile(`\]\(([^):]+)\)`).FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(link[1], "#")
			to := page
			if file != "" {
				to = path.Join(path.Dir(page), file)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil || anchor != "" &&
				!slices.Contains(anchors(pages[to]), anchor) {
				t.Errorf("%s links to %s: %v", page, link[1], err)
			}
		}
	}
}

// anchors returns the names by which a page's headings are linked.
func anchors(text string) (names []string) {
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		words := regexp.MustCompile(`[^a-z0-9_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		names = append(names, strings.ReplaceAll(words, " ", "-"))
	}
	return names
}

// README and docs name every command, and name no command or flag that does not exist. `poold help`
// explains the flags.
func TestDocsNameFlagsAndCommands(t *testing.T) {
	_, docs := readDocs(t)
	flags, names := map[string]bool{"--build-arg": true, "--help": true},
		map[string]bool{"man": true, "help": true, "completion": true}
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
	pages, _ := readDocs(t)
	for name, text := range pages {
		inside := false
		for i, line := range strings.Split(text, "\n") {
			fence := strings.HasPrefix(strings.TrimSpace(line), "```")
			inside = inside != fence
			if inside || fence || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "    ") ||
				strings.HasPrefix(line, "![") {
				continue
			}
			testkit.AtMost(t, fmt.Sprintf("characters in %s:%d", name, i+1), utf8.RuneCountInString(line), most)
		}
	}
}

// The table of docs/refill.md has a row for each built-in demand. scripts/refill-table makes it.
func TestRefillPageHasEachDemand(t *testing.T) {
	pages, _ := readDocs(t)
	models := regexp.MustCompile(`([a-z]+):[A-Z]`).FindAllStringSubmatch(policy.DemandHelp, -1)
	testkit.AtLeast(t, "models", len(models), 8)
	for _, m := range models {
		// steady is another word for poisson
		if m[1] != "steady" && !strings.Contains(pages["docs/refill.md"], "\n| `"+m[1]+":") {
			t.Errorf("there is no row of %s", m[1])
		}
	}
}

// Each line of scripts/mutations still applies: its old text occurs once in its file.
func TestMutationsApply(t *testing.T) {
	lines, err := os.ReadFile(filepath.Join(root, "scripts/mutations"))
	testkit.NoError(t, err)
	for line := range strings.Lines(string(lines)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		source, err := os.ReadFile(filepath.Join(root, fields[0]))
		testkit.NoError(t, err)
		testkit.Equal(t, "occurrences: "+line, strings.Count(string(source), fields[1]), 1)
	}
}
