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
	line, want, have := differing(text, string(got))
	Equal(t, fmt.Sprintf("%s:%d (-update writes it)", path, line), want, have)
}

// differing returns the lines of two texts from the first to the last different one, at most 20 of each, and the number
// of the first one.
func differing(a, b string) (line int, _, _ string) {
	one, two, line := strings.SplitAfter(a, "\n"), strings.SplitAfter(b, "\n"), 1
	for ; len(one) > 0 && len(two) > 0 && one[0] == two[0]; line++ {
		one, two = one[1:], two[1:]
	}
	for len(one) > 0 && len(two) > 0 && one[len(one)-1] == two[len(two)-1] {
		one, two = one[:len(one)-1], two[:len(two)-1]
	}
	return line, strings.Join(one[:min(20, len(one))], ""), strings.Join(two[:min(20, len(two))], "")
}

// Wrapped breaks a text into lines of at most 120 columns. All but the first begin with indent.
func Wrapped(text, indent string) string {
	line := regexp.MustCompile(fmt.Sprintf(`(^.{1,120}|.{1,%d})(?: |$)`, 120-len(indent)))
	text = line.ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1\n"+indent)
	return strings.TrimSpace(text) + "\n"
}
