package openapi

import (
	_ "embed"
	"regexp"
	"sync"
)

// Document is the description of the API of this version as YAML. Nothing may change the bytes.
//
//go:embed openapi.yaml
var Document []byte

var (
	// strict matches the lines of the description that forbid further members in objects.
	strict = regexp.MustCompile(`(?m)^ +(additional|unevaluated)Properties: false\n`)
	// closed matches the lists of values that a later version may extend.
	closed = regexp.MustCompile(`\b((?:code|kind|source|propertyNames): \{type: string, )enum(: \[)`)
)

// Served returns the description for clients: a generated client must not fail when a later version adds a member, a
// code, a kind or a source. So further members are allowed, and the values of these fields are only examples.
// The caller must not change the bytes.
var Served = sync.OnceValue(func() []byte {
	return closed.ReplaceAll(strict.ReplaceAll(Document, nil), []byte("${1}examples$2"))
})
