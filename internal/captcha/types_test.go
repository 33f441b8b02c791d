package captcha

import (
	"os"
	"strings"
	"testing"

	"poold/internal/testkit"
)

func joined[T ~string](words []T, between string) string {
	var all []string
	for _, w := range words {
		all = append(all, string(w))
	}
	return strings.Join(all, between)
}

// The documentation has what the table of types says: if a test of this kind fails after a new row, the docs lack its
// words.
func TestDocsNameEveryType(t *testing.T) {
	var pools []string
	for _, poolable := range Types() {
		pools = append(pools, string(poolable))
	}
	for path, want := range map[string]string{
		"../httpapi/openapi/openapi.yaml": "enum: [" + joined(SolvableTypes(), ", ") + "]",
		"identity.go":                     "One of " + joined(SolvableTypes(), ", ") + ".",
		"../../README.md":                 "# or " + strings.Join(pools[1:], ", "),
	} {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks (%v)\n%s", path, err, want)
		}
	}
	source, err := os.ReadFile("identity.go")
	testkit.NoError(t, err)
	for _, key := range Keys() {
		before, _, _ := strings.Cut(string(source), "`yaml:\""+key+"\"")
		comment := before[strings.LastIndex(before, "`"):]
		types := TypesWith(key)
		if len(types) == 0 {
			t.Errorf("no type has the field %s: write its names into a row of Kinds", key)
		} else if want := joined(types, " and ") + " only."; len(types) < len(Types()) && types[0] != Image &&
			!strings.Contains(comment, want) {
			t.Errorf("the comment of %s lacks %q", key, want)
		}
	}
}
