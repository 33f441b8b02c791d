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

// Published reports a failure unless a file has a text, from the first different paragraph on. With -update it writes
// the file first.
func Published(t testing.TB, path, text string) {
	t.Helper()
	if *Update {
		NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	got, err := os.ReadFile(path)
	NoError(t, err)
	want, have := strings.SplitAfter(text, "\n\n"), strings.SplitAfter(string(got), "\n\n")
	for len(want) > 0 && len(have) > 0 && want[0] == have[0] {
		want, have = want[1:], have[1:]
	}
	Equal(t, path+" (-update writes it)", fmt.Sprint(want[:min(2, len(want))]), fmt.Sprint(have[:min(2, len(have))]))
}

// Wrapped breaks a text into lines of at most 120 columns. All but the first begin with indent.
func Wrapped(text, indent string) string {
	line := regexp.MustCompile(fmt.Sprintf(`(^.{1,120}|.{1,%d})(?: |$)`, 120-len(indent)))
	text = line.ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1\n"+indent)
	return strings.TrimSpace(text) + "\n"
}
