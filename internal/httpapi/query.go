package httpapi

import (
	"net/url"
	"slices"
	"strings"

	"poold/internal/targets"
)

// parseQuery reads a query that may have these parameters. What it does not know is
// refused, with the known one that was probably meant: a misspelt one would have no
// effect, and nobody would notice. Nothing of the query is repeated.
func parseQuery(raw string, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return nil, problem(codeBadRequest, "the query is not well-formed")
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
		return nil, problem(codeBadRequest, "there are no parameters here")
	}
	text := "the query has a parameter other than " + strings.Join(known, ", ")
	if meant := targets.Nearest(slices.Min(unknown), known); meant != "" {
		text += ": did you mean " + meant + "?"
	}
	return nil, problem(codeBadRequest, text)
}

// readValues is parseQuery where each parameter may be given once.
func readValues(raw string, known ...string) (url.Values, error) {
	values, err := parseQuery(raw, known...)
	if err != nil {
		return nil, err
	}
	for name, given := range values {
		if len(given) > 1 {
			return nil, problem(codeBadRequest, name+" was given more than once")
		}
	}
	return values, nil
}
