package openapi_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"poold/internal/httpapi/openapi"
	"poold/internal/testkit"
)

// TestDocumentIsValidOpenAPI: a validator of OpenAPI 3.1 finds no fault in the description.
// The schemas of answers allow further members, codes, kinds and sources.
func TestDocumentIsValidOpenAPI(t *testing.T) {
	document, err := openapi3.NewLoader().LoadFromData(openapi.Served())
	testkit.NoError(t, err)
	testkit.Equal(t, "version", document.OpenAPI, "3.1.0")
	testkit.Equal(t, "bans of further members", strings.Count(string(openapi.Served()), "Properties: false"), 0)
	open := regexp.MustCompile(`\b(code|kind|source):\s[^}]*\benum`)
	testkit.Equal(t, "lists of values", len(open.FindAll(openapi.Served(), -1)), 0)
	testkit.Equal(t, "lists of values for the tests of poold", len(open.FindAll(openapi.Document, -1)) > 30, true)
	testkit.NoError(t, document.Validate(t.Context()))
}
