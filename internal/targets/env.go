package targets

import (
	"fmt"
	"strings"
)

// scalar is a single value of the file, in which the references are replaced.
type scalar struct {
	text   string
	names  []string // names of the referenced variables, in order
	quoted bool     // whether the value was written in quotes
	null   bool
}

// literal reports whether the file contains the value literally. A message may quote only literal
// values.
func (e scalar) literal() bool { return len(e.names) == 0 }

// notText returns the last part of a message about an invalid value. It quotes only a literal
// value.
func (e scalar) notText() string {
	if !e.literal() {
		return fmt.Sprintf("; the value of ${%s} is something else", e.names[0])
	}
	return ", not " + quote(e.text)
}

// expand replaces the references in one value. The problem does not quote the value, because the
// text around a reference may be a secret.
func expand(value string, lookup func(string) (string, bool)) (e scalar, problem string) {
	var out strings.Builder
	for {
		before, rest, has := strings.Cut(value, "${")
		if !has {
			out.WriteString(value)
			e.text = out.String()
			return e, ""
		}
		if literal, escaped := strings.CutSuffix(before, "$"); escaped {
			out.WriteString(literal + "${")
			value = rest
			continue
		}
		out.WriteString(before)
		body, after, closed := strings.Cut(rest, "}")
		if !closed {
			return e, "a reference is not closed: write ${NAME} or ${NAME:-default}, or $${ for a literal ${"
		}
		name, fallback, hasFallback := strings.Cut(body, ":-")
		switch {
		case strings.Contains(fallback, "${"):
			return e, "references do not nest: the default of one cannot be another"
		case !isVariable(name):
			return e, "invalid reference: write ${NAME} or ${NAME:-default}, or $${ for a literal ${"
		}
		e.names = append(e.names, name)
		found, set := "", false
		if lookup != nil {
			found, set = lookup(name)
		}
		switch {
		case found != "":
			out.WriteString(found)
		case hasFallback:
			out.WriteString(fallback)
		case !set:
			return e, fmt.Sprintf("the environment variable %s is not set: set it, or write ${%s:-default}", name, name)
		}
		value = after
	}
}

// isVariable reports whether a text is a valid name of an environment variable and short enough for
// messages.
func isVariable(name string) bool {
	if name == "" || len(name) > 100 || '0' <= name[0] && name[0] <= '9' {
		return false
	}
	return strings.IndexFunc(name, func(c rune) bool { return !isWord(c) }) < 0
}
