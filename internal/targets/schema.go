package targets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"poold/internal/captcha"
)

// schema is a JSON Schema, or a part of one.
type schema map[string]any

// reference is a regular expression for a reference to the environment or to a file. The schema
// accepts any value with a reference.
const reference = `\$\{([A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?|file:/[^}]*)\}`

// Schema returns the JSON Schema (draft 2020-12) of the file: the keys with their types, ranges and
// defaults. The schema accepts every file that Parse accepts. The schema does not check the ranges
// of durations, the forms of addresses and cron expressions, and the rules between keys.
func Schema() []byte {
	s := pools.schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "poold: pools.yaml"
	s["description"] = "What poold keeps ready, and from whom it buys. In any value ${NAME} and ${NAME:-default} are replaced from the environment, and ${file:/path} by the content of a file. `poold check` knows the rules between keys too."
	s["$defs"] = schema{"reference": schema{
		"type": "string", "pattern": reference, "description": "A value from the environment, ${NAME} or ${NAME:-default}, or from a file, ${file:/path}."}}
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	if err := to.Encode(s); err != nil {
		panic(err) // impossible unless a struct tag has a value that JSON cannot express
	}
	return text.Bytes()
}

// schema returns the JSON Schema for the value of a key.
func (f field) schema() schema {
	s := f.kind.schema()
	s["description"] = f.doc
	if d, ok := f.kind.(duration); ok { // JSON Schema has no keyword for the range of a duration, so the description has the range
		s["description"] = fmt.Sprintf("%s From %s to %s.", f.doc, shortDuration(d.lo), shortDuration(d.hi))
	}
	if !f.preset.IsValid() {
		return s
	}
	s["default"] = f.preset.Interface()
	switch preset := s["default"].(type) {
	case time.Duration:
		s["default"] = shortDuration(preset)
	case captcha.Secret: // the default of a secret is not secret itself
		s["default"] = preset.Reveal()
	}
	return s
}

// orReference returns the schema for a number or a boolean. A text with a reference is valid too.
// In JSON Schema, a pattern applies only to texts, and a minimum only to numbers.
func orReference(kind string) schema {
	return schema{"type": []string{kind, "string"}, "pattern": reference}
}
