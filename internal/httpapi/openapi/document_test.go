package openapi_test

import (
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"poold/internal/httpapi/openapi"
	"poold/internal/testkit"
)

// TestDocumentIsValidOpenAPI: a validator of OpenAPI 3.1 finds no fault in the description.
func TestDocumentIsValidOpenAPI(t *testing.T) {
	document, err := openapi3.NewLoader().LoadFromData(openapi.Document())
	testkit.NoError(t, err)
	if document.OpenAPI != "3.1.0" {
		t.Errorf("openapi: %s", document.OpenAPI)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}
