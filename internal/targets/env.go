package targets

import (
	"fmt"
	"strings"
)

// scalar is a single value of the file, in which the references are replaced.
type scalar struct {
	text   string
	names  []string // the references: names of variables, or file: and a path
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
func expand(value string, refs References) (e scalar, problem string) {
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
			return e, "a reference is not closed: " + referenceForms
		}
		var text string
		if path, isFile := strings.CutPrefix(body, "file:"); isFile {
			text, problem = refs.fileValue(path)
			body = "file:" + path
		} else {
			body, text, problem = refs.variable(body)
		}
		if problem != "" {
			return e, problem
		}
		e.names = append(e.names, body)
		out.WriteString(text)
		value = after
	}
}

// referenceForms is the remedy for malformed references.
const referenceForms = "write ${NAME}, ${NAME:-default} or ${file:/path}, or $${ for a literal ${"

// variable returns the name of the variable in a reference, and the value of the reference.
func (refs References) variable(body string) (name, text, problem string) {
	name, fallback, hasFallback := strings.Cut(body, ":-")
	switch {
	case strings.Contains(fallback, "${"):
		return "", "", "references do not nest: the default of one cannot be another"
	case !isVariable(name):
		return "", "", "invalid reference: " + referenceForms
	}
	found, set := "", false
	if refs.Variable != nil {
		found, set = refs.Variable(name)
	}
	switch {
	case found != "":
		return name, found, ""
	case hasFallback:
		return name, fallback, ""
	case !set:
		return "", "", fmt.Sprintf("the environment variable %s is not set: set it, or write ${%s:-default}", name, name)
	}
	return name, "", ""
}

// isVariable reports whether a text is a valid name of an environment variable and short enough for
// messages.
func isVariable(name string) bool {
	if name == "" || len(name) > 100 || '0' <= name[0] && name[0] <= '9' {
		return false
	}
	return strings.IndexFunc(name, func(c rune) bool { return !isWord(c) }) < 0
}
