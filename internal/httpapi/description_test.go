package httpapi

import (
	"regexp"
	"slices"
	"testing"

	"poold/internal/httpapi/openapi/openapitest"
)

// TestDescriptionHasEveryRoute: openapi.yaml and the table of routes have the same methods and
// paths.
func TestDescriptionHasEveryRoute(t *testing.T) {
	var routes []string
	for _, route := range new(Server).routes() {
		for _, method := range route.methods {
			routes = append(routes, method+" "+regexp.MustCompile(`:(\w+)`).ReplaceAllString(route.path, "{$1}"))
		}
	}
	described := openapitest.Poold().Operations()
	for _, route := range routes {
		if !slices.Contains(described, route) {
			t.Errorf("openapi.yaml lacks %s", route)
		}
	}
	for _, operation := range described {
		if !slices.Contains(routes, operation) {
			t.Errorf("there is no route %s, which openapi.yaml describes", operation)
		}
	}
}
