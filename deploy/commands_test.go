//go:build !race

package deploy_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"poold/internal/testkit"
)

// deployBlock matches a block of commands that a test of this package runs. The block may be part of a
// list.
var deployBlock = regexp.MustCompile("(?ms)^ *```sh deploy\n(.*?)^ *```$")

// sectionOf returns the text of a section of docs, without its heading.
func sectionOf(t testing.TB, page, heading string) string {
	t.Helper()
	_, text, is := strings.Cut(read(t, "../docs/"+page), "\n"+heading+"\n")
	if !is {
		t.Fatalf("docs/%s has no section %q", page, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// blocks returns the blocks "sh deploy" of a section of docs, in their order.
func blocks(t *testing.T, page, heading string) []string {
	t.Helper()
	all := found(deployBlock.String(), sectionOf(t, page, heading))
	if len(all) == 0 {
		t.Fatalf("docs/%s has no commands below %q", page, heading)
	}
	return all
}

// bash runs commands of the docs in a folder, and returns their output. The pairs of texts in replaced
// are texts of the commands and what the test uses instead. The commands must contain each one.
func bash(t *testing.T, folder, commands string, env []string, replaced ...string) string {
	t.Helper()
	for i := 0; i < len(replaced); i += 2 {
		if !strings.Contains(commands, replaced[i]) {
			t.Fatalf("the commands do not contain %q:\n%s", replaced[i], commands)
		}
		commands = strings.ReplaceAll(commands, replaced[i], replaced[i+1])
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", commands)
	command.Dir, command.Env = folder, append(os.Environ(), env...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\nprinted\n%s", err, commands, output)
	}
	return string(output)
}

// TestEachBlockIsRun: a test of this package runs each block "sh deploy" of the docs. The source of the
// test names the page and the heading.
func TestEachBlockIsRun(t *testing.T) {
	t.Parallel()
	var source string
	files, err := filepath.Glob("*_test.go")
	testkit.NoError(t, err)
	for _, file := range files {
		source += read(t, file)
	}
	pages, err := filepath.Glob("../docs/*.md")
	testkit.NoError(t, err)
	var headings []string
	for _, page := range pages {
		for _, section := range strings.Split(read(t, page), "\n## ")[1:] {
			if heading, _, _ := strings.Cut(section, "\n"); deployBlock.MatchString(section) {
				headings = append(headings, fmt.Sprintf("blocks(t, %q, %q)", filepath.Base(page), "## "+heading))
			}
		}
	}
	testkit.AtLeast(t, "sections with commands", len(headings), 4)
	for _, call := range slices.Compact(headings) {
		if !strings.Contains(source, call) {
			t.Errorf("no test has %s", call)
		}
	}
}
