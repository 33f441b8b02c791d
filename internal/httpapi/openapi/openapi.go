package openapi

import (
	_ "embed"
	"regexp"
)

//go:embed openapi.yaml
var document []byte

// strict are the lines that allow no further members in objects.
var strict = regexp.MustCompile(`(?m)^ +(additional|unevaluated)Properties: false\n`)

// Document returns the description of the API of this version as YAML. The caller must not change the bytes.
func Document() []byte { return document }

// Served returns the description for clients: without the lines that would let a generated client fail when a later
// version adds a member.
func Served() []byte { return strict.ReplaceAll(document, nil) }
