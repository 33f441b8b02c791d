package testkit

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Update is the flag -update of the tests that write files: run them with it, and read the difference.
var Update = flag.Bool("update", false, "write what the tests compare, in testdata, docs and schemas")

// Published reports a failure unless a file has a text, with the first different lines. With -update it writes the file
// first.
func Published(t testing.TB, path, text string) {
	t.Helper()
	if *Update {
		NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	got, err := os.ReadFile(path)
	NoError(t, err)
	want, have, line := strings.SplitAfter(text, "\n"), strings.SplitAfter(string(got), "\n"), 1
	for ; len(want) > 0 && len(have) > 0 && want[0] == have[0]; line++ {
		want, have = want[1:], have[1:]
	}
	for len(want) > 0 && len(have) > 0 && want[len(want)-1] == have[len(have)-1] {
		want, have = want[:len(want)-1], have[:len(have)-1]
	}
	first := func(lines []string) string { return strings.Join(lines[:min(20, len(lines))], "") }
	Equal(t, fmt.Sprintf("%s:%d (-update writes it)", path, line), first(want), first(have))
}

// Wrapped breaks a text into lines of at most 120 columns. All but the first begin with indent.
func Wrapped(text, indent string) string {
	line := regexp.MustCompile(fmt.Sprintf(`(^.{1,120}|.{1,%d})(?: |$)`, 120-len(indent)))
	text = line.ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1\n"+indent)
	return strings.TrimSpace(text) + "\n"
}
