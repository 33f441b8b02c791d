package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/daemontest"
	"poold/internal/provider/simulatedtest"
	"poold/internal/testkit"
)

// TestExamples runs the examples of README.md and docs/*.md. A page is a story: its fenced blocks
// run one after another against a running daemon. They run in a new folder with poold, pools.yaml
// and the picture letters.png. The words after a fence select how the block runs:
//
//	sh           commands of bash; a failed command fails the test
//	sh install   commands that scripts/firsttoken runs on a clean machine
//	sh deploy    commands that a test of deploy runs
//	console      commands behind "$ ", and their output: the test compares the names of the
//	             fields of JSON, and the first line of a text
//	python, js   a program. If its first line is a comment with a file's name, it is kept under
//	             that name for a later command
//	yaml add     sections of pools.yaml for the daemon from here on
//	yaml         nothing to run; TestSchemaAcceptsTheExamplesOfTheDocs checks it
//	text         nothing to run
//
// The test replaces 127.0.0.1:8080 by the daemon's address, which POOLD_URL also contains. It
// replaces the page of the target in README by a page of the test. If a page mentions POOLD_KEY,
// the daemon requires this key. A curl fails if its response is an error. notRun lists the commands
// that cannot run in the test.
func TestExamples(t *testing.T) {
	testkit.WithoutRace(t)
	t.Parallel()
	pages := examples(t)
	checkNotRun(t, pages)
	service := daemontest.Provider(t,
		simulatedtest.Setup{Median: 50 * time.Millisecond, Threads: 100, Seed: 1})
	for page, blocks := range pages {
		if !slices.ContainsFunc(blocks, block.runs) {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, blocks, service)
			for _, b := range blocks {
				s.run(b)
			}
			if len(s.kept) > 0 {
				t.Errorf("no command runs %q", s.kept)
			}
		})
	}
}

// notRun lists, by page, the commands that the test omits, with the reason. It contains only the
// start of each command.
var notRun = map[string]map[string][]string{
	"README.md": {
		"the test builds poold itself and starts a daemon for each page": {"go run ./", "go build -o poold"},
		"this test is a part of it":                                      {"scripts/test"},
		"needs an account at a service": {"export CAPTCHAAI_API_KEY=", "./poold init",
			"./poold serve"},
	},
	"docs/api.md": {
		"scripts/test installs it, in the version that scripts/docs pins": {"npm install"},
		"downloads a browser; scripts/test installs that of Debian":       {"npx playwright install"},
		"the test starts a daemon for each page":                          {"poold serve"},
		"runs until it is interrupted":                                    {"poold status --watch"},
		"writes to the folders of the shells":                             {"poold completion"},
		"needs an id of the daemon's":                                     {"poold report"},
	},
	"docs/clients.md": {
		"changes the names and the trust of the machine":    {"echo \"192.0.2.10", "cat /etc/ssl", "export "},
		"needs a poold with a certificate; scripts/clients": {"curl --cacert"},
		"needs npm's registry; scripts/clients":             {"npm install", "npx "},
	},
	"docs/deploying.md": {"needs Docker": {"docker build", "docker run"}},
	"docs/developing.md": {
		"scripts/test runs it or the same": {"go build", "go test ./internal/refill", "go test ./cmd/poold",
			"go test -race", "golangci-lint"},
		"measures, draws or searches for minutes": {"go test ./internal/model", "go test ./internal/pool", "scripts/mutate",
			"scripts/mutate-go", "scripts/policy-tables", "go test ./internal/targets -fuzz", "scripts/page/pictures"},
		"needs npm's registry; docs/clients.md": {"scripts/clients/"},
	},
}

// root is the root folder of the repository.
var root = filepath.Join("..", "..")

// block is a fenced block of a page.
type block struct {
	page  string   // "docs/api.md"
	line  int      // line of the fence
	words []string // words after the fence
	text  string   // all lines, including their line ends
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// runs reports whether the block contains something to run.
func (b block) runs() bool {
	switch b.words[0] {
	case "sh":
		return len(b.words) == 1 && strings.TrimSpace(b.script()) != ""
	case "console", "python", "js":
		return true
	}
	return false
}

// script returns a block of commands without the commands of notRun.
func (b block) script() string {
	var kept strings.Builder
	left := false
	for line := range strings.Lines(b.text) {
		if !left {
			left = b.notRun(line)
		}
		if !left {
			kept.WriteString(line)
		}
		left = left && strings.HasSuffix(line, "\\\n")
	}
	return kept.String()
}

// notRun reports whether a line starts a command that the test omits.
func (b block) notRun(line string) bool {
	for _, beginnings := range notRun[b.page] {
		if slices.ContainsFunc(beginnings, func(with string) bool { return strings.HasPrefix(line, with) }) {
			return true
		}
	}
	return false
}

// examples returns the fenced blocks of README and docs, by page.
func examples(t *testing.T) map[string][]block {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	pages := map[string][]block{}
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		testkit.NoError(t, err)
		page, err := filepath.Rel(root, file)
		testkit.NoError(t, err)
		for _, b := range blocksOf(filepath.ToSlash(page), string(text)) {
			if !slices.Contains([]string{"sh", "sh install", "sh deploy", "console", "python", "js", "yaml", "yaml add", "text"},
				strings.Join(b.words, " ")) {
				t.Fatalf("%s: the test does not know how to run a block of %q", b, b.words)
			}
			pages[b.page] = append(pages[b.page], b)
		}
	}
	return pages
}

func blocksOf(page, text string) (blocks []block) {
	inside := false
	for number, line := range slices.Collect(strings.Lines(text)) {
		info, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && !inside:
			blocks = append(blocks, block{page: page, line: number + 1, words: strings.Fields(info)})
		case inside && !fence:
			blocks[len(blocks)-1].text += line
		}
		inside = inside != fence
	}
	return blocks
}

// checkNotRun reports the entries of notRun that occur on no page.
func checkNotRun(t *testing.T, pages map[string][]block) {
	t.Helper()
	for page, reasons := range notRun {
		for _, beginnings := range reasons {
			for _, with := range beginnings {
				if !slices.ContainsFunc(pages[page], func(b block) bool {
					return regexp.MustCompile(`(?m)^(\$ )?` + regexp.QuoteMeta(with)).MatchString(b.text)
				}) {
					t.Errorf("%s has no command %q, which is listed as not run", page, with)
				}
			}
		}
	}
}
