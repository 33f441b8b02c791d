package syntax

import (
	"strings"
	"testing"
)

// Neither a quoted text over several lines nor a quote inside a comment is an open quote.
func TestOpenQuoteIgnoresClosedQuotesAndComments(t *testing.T) {
	for text, want := range map[string]int{
		"a: \"x\n  y\"\nb: @\n":           0,
		"a: [\"x\n  y\", z]\nb: @\n":      0,
		"a: \"x\n  y\" # c\nb: \"@\n":     3,
		"# it's \"\na: b # \"\nc: 'd\n":   3,
		"a: it's\nb: 'c\nd: 'e'\n":        2,
		"a: \"x\\\"\nb: \"y\"\n":          1,
		"a: ''\nb: \"\"\nc: @\n":          0,
		"a: \"" + strings.Repeat("x", 99): 1,
	} {
		if got := openQuote([]byte(text)); got != want {
			t.Errorf("%.40q: line %d, want %d", text, got, want)
		}
	}
}
