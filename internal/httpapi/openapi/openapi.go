package openapi

import _ "embed"

//go:embed openapi.yaml
var document []byte

// Document returns the description of the API as YAML. The caller must not change the bytes.
func Document() []byte { return document }
