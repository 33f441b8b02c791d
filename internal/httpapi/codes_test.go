package httpapi

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"poold/internal/httpapi/openapi/openapitest"
)

// TestDocsNameEveryCode: programs rely on the codes. docs/api.md therefore lists exactly these
// codes, each beside its status.
func TestDocsNameEveryCode(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "api.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(page), "\n## Errors\n")
	list, _, _ = strings.Cut(list, "\n## ")
	var named []Code
	for _, row := range regexp.MustCompile(`(?m)^\| (\d[^|]*)\| (.*)$`).FindAllStringSubmatch(list, -1) {
		for _, name := range regexp.MustCompile("`([a-z]+(?:_[a-z]+)*)`").FindAllStringSubmatch(row[2], -1) {
			meaning, is := meanings[Code(name[1])]
			if !is || !strings.Contains(row[1], strconv.Itoa(meaning.status)) {
				t.Errorf("docs/api.md has %s beside %s", name[1], row[1])
			}
			named = append(named, Code(name[1]))
		}
	}
	for c := range meanings {
		if !slices.Contains(named, c) {
			t.Errorf("docs/api.md does not name %s", c)
		}
	}
}

// TestDescriptionHasEveryCode: openapi.yaml has exactly these codes, each with its status.
func TestDescriptionHasEveryCode(t *testing.T) {
	described, err := openapitest.Poold().Codes()
	if err != nil {
		t.Fatal(err)
	}
	defined := map[int][]string{}
	for code, m := range meanings {
		defined[m.status] = append(defined[m.status], string(code))
	}
	for _, codes := range defined {
		slices.Sort(codes)
	}
	if !maps.EqualFunc(described, defined, slices.Equal) {
		t.Errorf("openapi.yaml has the codes\n%v, want\n%v", described, defined)
	}
}
