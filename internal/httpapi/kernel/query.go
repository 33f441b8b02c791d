package kernel

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"poold/internal/targets"
)

// ParseQuery reads a query that may have these parameters. What it does not know is
// refused, with the known one that was probably meant: a misspelt one would have no
// effect, and nobody would notice. Nothing of the query is repeated.
func ParseQuery(raw string, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, NewProblem(CodeBadRequest, "the query is not well-formed")
	}
	var unknown []string
	for name := range values {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return values, nil
	}
	if len(known) == 0 {
		return nil, NewProblem(CodeBadRequest, "there are no parameters here")
	}
	text := "the query has a parameter other than " + strings.Join(known, ", ")
	if meant := targets.Nearest(slices.Min(unknown), known); meant != "" {
		text += ": did you mean " + meant + "?"
	}
	return nil, NewProblem(CodeBadRequest, text)
}

// ReadValues is parseQuery where each parameter may be given once.
func ReadValues(raw string, known ...string) (url.Values, error) {
	values, err := ParseQuery(raw, known...)
	if err != nil {
		return nil, err
	}
	for name, given := range values {
		if len(given) > 1 {
			return nil, NewProblem(CodeBadRequest, name+" was given more than once")
		}
	}
	return values, nil
}

// rfc3339 refuses what time.Parse takes beyond the standard, such as an hour of
// one digit.
var rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// ReadTime reads a moment in RFC 3339, with its zone.
func ReadTime(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && rfc3339.MatchString(text)
}
