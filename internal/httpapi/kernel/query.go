package kernel

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"poold/internal/targets"
)

// ReadValues parses a query. Each of the known parameters may occur at most once. ReadValues
// refuses any other parameter, because a misspelt parameter would have no effect. The error for an
// unknown parameter suggests the known parameter with the most similar name. The error quotes no
// part of the query.
func ReadValues(raw string, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, NewProblem(CodeBadRequest, "the query is not well-formed: percent-encode the values")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case len(known) == 0:
			return nil, NewProblem(CodeBadRequest, "this route takes no query parameters")
		case !slices.Contains(known, name):
			text := "the query has an unknown parameter; known: " + strings.Join(known, ", ")
			if meant := targets.Nearest(name, known); meant != "" {
				text += "; did you mean " + meant + "?"
			}
			return nil, NewProblem(CodeBadRequest, text)
		case len(values[name]) > 1:
			return nil, NewProblem(CodeBadRequest, name+" is given more than once")
		}
	}
	return values, nil
}

// The pattern rfc3339 is stricter than time.Parse, which also accepts, for example, an hour of one
// digit.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ReadTime parses a time in RFC 3339, with its zone.
func ReadTime(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && rfc3339.MatchString(text)
}
