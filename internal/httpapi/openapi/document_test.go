package openapi_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"poold/internal/captcha"
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

// The request to /solve of each type has each field of the type.
func TestCompleteSolves(t *testing.T) {
	document, err := openapi3.NewLoader().LoadFromData(openapi.Document)
	testkit.NoError(t, err)
	found := 0
	for name, schema := range document.Components.Schemas {
		kind := schema.Value.Properties["type"]
		if !strings.HasPrefix(name, "Solve") || kind == nil {
			continue
		}
		for _, k := range captcha.Kinds {
			if k.Type != captcha.Type(fmt.Sprint(kind.Value.Enum...)) {
				continue
			}
			found++
			for _, field := range k.Fields {
				site := document.Components.Schemas["SolveSite"].Value.Properties[field.Key]
				if field.Key != "" && schema.Value.Properties[field.Key] == nil && site == nil {
					t.Errorf("%s lacks %s", name, field.Key)
				}
			}
		}
	}
	testkit.Equal(t, "types with a request", found, len(captcha.Kinds))
}
