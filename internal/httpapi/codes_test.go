package httpapi

import (
	"maps"
	"slices"
	"testing"

	"poold/internal/httpapi/openapi/openapitest"
)

// TestDescriptionHasEveryCode: programs rely on the codes. openapi.yaml has exactly these, each with its status.
// TestDocsHelpInEveryState compares it with docs/operating.md.
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
