package targets

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// The longest text values, in bytes.
const (
	maxText     = 2048
	maxLongText = 16 << 10
)

// reader collects what is wrong while the nodes are walked.
type reader struct {
	file     string // "" for a request
	lookup   func(string) (string, bool)
	request  bool // the body of a request is read, not a file: no reference is replaced, and texts stand in quotes
	problems Problems
	warnings Problems
}

// fail notes something that makes the file invalid.
func (r *reader) fail(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

// warn notes something that is unusual and allowed.
func (r *reader) warn(line int, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{File: r.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

// warnOfDemo notes why nothing real is bought.
func (r *reader) warnOfDemo(line int, format string, args ...any) {
	r.warn(line, format, args...)
	r.warnings[len(r.warnings)-1].demo = true
}

// value is one node of the file and what is needed to complain about it.
type value struct {
	r    *reader
	node *yaml.Node // nil where the file has none
	path string     // of keys, such as targets.login.depth; "" for the whole file
	key  string     // the last of them; "" for the whole file and for an item of a list
	line int        // of the key, or of the item in a list
}

// fail reports a fault of this value and returns false, for `return v.fail(…)`.
func (v value) fail(format string, args ...any) bool {
	v.r.fail(v.line, "%s", v.told(format, args))
	return false
}

// warn reports that this value is unusual.
func (v value) warn(format string, args ...any) { v.r.warn(v.line, "%s", v.told(format, args)) }

func (v value) told(format string, args []any) string {
	text := fmt.Sprintf(format, args...)
	if v.path == "" {
		return text
	}
	return v.path + ": " + text
}

// child is a value of the same line one step down the path; it has no node.
func (v value) child(key string) value {
	key = pathPart(key)
	path := key
	if v.path != "" {
		path = v.path + "." + key
	}
	return value{r: v.r, path: path, key: key, line: v.line}
}

// isNull reports whether a key was written without a value.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// noTags refuses anchors, aliases and tags. A secret that begins with one of
// their characters and was not quoted ends up here too.
func (v value) noTags() bool {
	switch {
	case v.node.Kind == yaml.AliasNode, v.node.Anchor != "":
		return v.fail("anchors (&) and aliases (*) are not read: quote a value that begins so, and put what targets share under defaults")
	case v.node.Style&yaml.TaggedStyle != 0:
		return v.fail("tags (!) are not read: quote a value that begins with !")
	}
	return true
}

// scalar returns the single value with its references replaced; want says what
// was expected here, for the message.
func (v value) scalar(want string) (expansion, bool) {
	if !v.noTags() {
		return expansion{}, false
	}
	if v.node.Kind != yaml.ScalarNode {
		return expansion{}, v.fail("must be %s", want)
	}
	if v.r.request {
		if isNull(v.node) {
			return expansion{}, v.fail("is null: give %s, or leave it out", want)
		}
		return expansion{text: v.node.Value}, true
	}
	e, problem := expand(v.node.Value, v.r.lookup)
	if problem != "" {
		return expansion{}, v.fail("%s", problem)
	}
	return e, true
}

// text returns a text, which no message here shows: it may be a secret. Numbers
// and truth values are taken as they are written, because an identifier may look
// like one. A key without a value is "".
func (v value) text(most int) (expansion, bool) {
	e, ok := v.scalar("text")
	if !ok {
		return e, false
	}
	if isNull(v.node) {
		e.text = ""
	}
	switch {
	case v.r.request && v.node.Style&quotedStyle == 0:
		return e, v.fail("must be text, in quotes")
	case TextFault(e.text) != "":
		return e, v.fail("%s", TextFault(e.text))
	case strings.TrimSpace(e.text) != e.text:
		return e, v.fail("must not begin or end with a space")
	case len(e.text) > most:
		return e, v.fail("must not be longer than %d bytes", most)
	}
	return e, true
}

// TextFault says what keeps a text of an operator from being shown in one line, such as an
// owner or the reason for a pause; "" = nothing. The characters that turn the direction of
// text would let the rest of a line be read as something else.
func TextFault(text string) string {
	for _, c := range text {
		switch {
		case isControl(c):
			return "must not hold line breaks or other control characters"
		case 0x202a <= c && c <= 0x202e, 0x2066 <= c && c <= 0x2069:
			return fmt.Sprintf("must not hold U+%04X, which turns the direction of the text around it: remove it", c)
		}
	}
	return ""
}

const quotedStyle = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// bare returns a value that is no text. An empty one is refused, and a quoted one
// without a reference, which YAML would call a text. With a reference, quotes are
// needed inside { } and [ ].
func (v value) bare(want string) (expansion, bool) {
	e, ok := v.scalar(want)
	switch {
	case !ok:
		return e, false
	case isNull(v.node):
		return e, v.fail("has no value: give %s, or remove the line", want)
	case e.literal() && v.node.Style&quotedStyle != 0:
		return e, v.fail("must be %s, not text in quotes", want)
	}
	return e, true
}

// remedy names the variables that would fill an empty value.
func (v value) remedy() string { return toSet(v.variables()) }

func toSet(variables []string) string {
	if len(variables) == 0 {
		return ""
	}
	return ": set " + orList(variables)
}

// variables are those that the value refers to.
func (v value) variables() []string {
	if v.node == nil {
		return nil
	}
	e, _ := expand(v.node.Value, v.r.lookup)
	return e.names
}
