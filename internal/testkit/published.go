package testkit

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Published reports a failure unless a file has a text. With update it writes the file first.
func Published(t testing.TB, update bool, path, text string) {
	t.Helper()
	if update {
		NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	got, err := os.ReadFile(path)
	NoError(t, err)
	first := 0 // difference, and then the paragraph that has it
	for first < min(len(got), len(text)) && got[first] == text[first] {
		first++
	}
	first = max(0, strings.LastIndex(text[:first], "\n\n"))
	rest := func(of string) string { return of[first:min(first+1000, len(of))] }
	Equal(t, path+" (-update writes it anew) from its first difference", rest(text), rest(string(got)))
}

// Wrapped breaks a text into lines of at most 120 columns. All but the first begin with indent.
func Wrapped(text, indent string) string {
	line := regexp.MustCompile(fmt.Sprintf(`(^.{1,120}|.{1,%d})(?: |$)`, 120-len(indent)))
	text = line.ReplaceAllString(strings.Join(strings.Fields(text), " "), "$1\n"+indent)
	return strings.TrimSpace(text) + "\n"
}
