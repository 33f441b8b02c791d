package httpapi

import (
	"regexp"
	"slices"
	"testing"

	"poold/internal/httpapi/openapi"
	"poold/internal/httpapi/openapi/openapitest"
)

// TestDescriptionHasEveryRoute: openapi.yaml and the table of routes have the same methods and
// paths.
func TestDescriptionHasEveryRoute(t *testing.T) {
	var routes []string
	for _, route := range new(areas).table() {
		for _, method := range route.Methods {
			routes = append(routes, method+" "+regexp.MustCompile(`:(\w+)`).ReplaceAllString(route.Path, "{$1}"))
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

// TestDescriptionIsServed: the description is public.
func TestDescriptionIsServed(t *testing.T) {
	d := start(t, sampleSet(allKeys()...), nil, nil)
	a := d.ask(t, "GET", "/openapi.yaml")
	a.check(t, "without a key", 200)
	equal(t, "the media type", a.header.Get("Content-Type"), "application/yaml")
	if a.body != string(openapi.Document()) {
		t.Error("the body is not the document")
	}
	equal(t, "HEAD", d.ask(t, "HEAD", "/openapi.yaml").status, 200)
}
