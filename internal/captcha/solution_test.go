package captcha

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"poold/internal/testkit"
)

func TestNamedReadsObjectsAndLists(t *testing.T) {
	text, err := os.ReadFile("testdata/solutions.txt") // a type with a solution (⏎ is a line break), and its values
	testkit.NoError(t, err)
	for row := range slices.Chunk(strings.Split(strings.TrimSpace(string(text)), "\n"), 2) {
		kind, solution, _ := strings.Cut(row[0], " ")
		got := "none"
		if values := Named(Type(kind), strings.ReplaceAll(solution, "⏎", "\n")); values != nil {
			got = fmt.Sprint(values)
		}
		testkit.Equal(t, row[0], got, strings.TrimSpace(row[1]))
	}
	for _, kind := range SolvableTypes() {
		testkit.Equal(t, string(kind)+" has named values", HasNamed(kind), kind == GeeTest || kind == GeeTestV4)
	}
}
