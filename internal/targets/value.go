package targets

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"poold/internal/targets/syntax"
)

// The longest text values, in bytes.
const (
	maxText     = 2048
	maxLongText = 16 << 10
)

// reader collects problems while the nodes are walked.
type reader struct {
	file     string // "" for a request
	lookup   func(string) (string, bool)
	request  bool // a request is read, not a file: texts are in quotes
	problems Problems
	warnings Problems
}

// fail reports a fault that makes the file invalid.
func (r *reader) fail(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

// warn reports something unusual that is allowed.
func (r *reader) warn(line int, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{File: r.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

// warnOfDemo reports why nothing real is bought.
func (r *reader) warnOfDemo(line int, format string, args ...any) {
	r.warn(line, format, args...)
	r.warnings[len(r.warnings)-1].demo = true
}

// value is one node of the file, with its position for problems.
type value struct {
	r    *reader
	node *yaml.Node // nil if the file has none

	path string // of keys, such as targets.login.depth; "" for the whole file
	key  string // the last of them; "" for the whole file and for an item of a list
	line int    // of the key, or of the item in a list
}

// fail reports a fault of this value and returns false, for `return v.fail(…)`.
func (v value) fail(format string, args ...any) bool {
	v.r.fail(v.line, "%s", v.message(format, args))
	return false
}

// warn reports that this value is unusual.
func (v value) warn(format string, args ...any) { v.r.warn(v.line, "%s", v.message(format, args)) }

func (v value) message(format string, args []any) string {
	return strings.TrimPrefix(v.path+": ", ": ") + fmt.Sprintf(format, args...)
}

// entry is a value that was written, and the entries inside it.
type entry struct {
	value
	ok    bool             // it may be used
	read  bool             // keys is complete: the value is a mapping, or null
	keys  map[string]entry // of a section
	items []entry          // of a list, or of a mapping of names
}

// has reports whether the file has the key, with a valid or an invalid value.
func (e entry) has(key string) bool {
	_, written := e.keys[key]
	return written
}

// bad reports whether a value among these keys is invalid. Rules between several values then report
// nothing, because the value was reported.
func (e entry) bad(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return e.has(key) && !e.keys[key].ok })
}

// needs reports the keys that were not written.
func (e entry) needs(keys ...string) {
	for _, key := range keys {
		if !e.has(key) {
			e.child(key).fail("is missing")
		}
	}
}

// unique reports a name that an earlier entry has. lines maps the names to lines.
func (e entry) unique(what, name string, lines map[string]int) {
	if line := lines[name]; line > 0 {
		e.fail("has the same name as the %s in line %d: names are unique", what, line)
	} else if name != "" {
		lines[name] = e.line
	}
}

// at returns the first of the keys that was written. If none was, it returns the last one,
// at the line of the section.
func (e entry) at(keys ...string) entry {
	for _, key := range keys {
		if e.has(key) {
			return e.keys[key]
		}
	}
	return entry{value: e.child(keys[len(keys)-1])}
}

// child is a value of the same line one step down the path; it has no node.
func (v value) child(key string) value {
	key = pathPart(key)
	return value{r: v.r, path: strings.TrimPrefix(v.path+"."+key, "."), key: key, line: v.line}
}

// noTags refuses anchors, aliases and tags. An unquoted secret that begins with one of
// their characters is refused too.
func (v value) noTags() bool {
	switch {
	case v.node == nil:
	case v.node.Kind == yaml.AliasNode, v.node.Anchor != "":
		return v.fail("anchors (&) and aliases (*) are not read: quote a value that begins so, and put what targets share under defaults")
	case v.node.Style&yaml.TaggedStyle != 0:
		return v.fail("tags (!) are not read: quote a value that begins with !")
	}
	return true
}

// scalar returns the single value with its references replaced. want is the expected value,
// for the message.
func (v value) scalar(want string) (scalar, bool) {
	if !v.noTags() {
		return scalar{}, false
	}
	if v.node.Kind != yaml.ScalarNode {
		return scalar{}, v.fail("must be %s", want)
	}
	e, problem := scalar{text: v.node.Value}, ""
	if !v.r.request {
		e, problem = expand(v.node.Value, v.r.lookup)
	}
	e.null, e.quoted = syntax.IsNull(v.node), v.node.Style&quotedStyle != 0
	switch {
	case problem != "":
		return e, v.fail("%s", problem)
	case v.r.request && e.null:
		return e, v.fail("is null: give %s, or leave it out", want)
	}
	return e, true
}

// text returns a text, which no message shows: it may be a secret. Numbers and truth values
// are taken as they are written, because an identifier may look like one. A key without a
// value is "".
func (v value) text(most int) (scalar, bool) {
	e, ok := v.scalar("text")
	if !ok {
		return e, false
	}
	if e.null {
		e.text = ""
	}
	ascii := printable(e.text, ' ')
	switch {
	case v.r.request && !e.quoted:
		return e, v.fail("must be text, in quotes")
	case !ascii && v.r.request && strings.ContainsRune(e.text, utf8.RuneError): // for which the JSON decoder takes invalid bytes
		return e, v.fail("must be valid UTF-8")
	case !ascii && TextFault(e.text) != "":
		return e, v.fail("%s", TextFault(e.text))
	case strings.TrimSpace(e.text) != e.text:
		return e, v.fail("must not begin or end with a space")
	case len(e.text) > most:
		return e, v.fail("must not be longer than %d bytes", most)
	}
	return e, true
}

// TextFault returns why a text of an operator, such as an owner or the reason for a pause,
// cannot be shown in one line, or "". Characters that turn the direction of text would
// change the meaning of the line behind them.
func TextFault(text string) string {
	for _, c := range text {
		switch {
		case syntax.IsControl(c):
			return "must not hold line breaks or other control characters"
		case 0x202a <= c && c <= 0x202e, 0x2066 <= c && c <= 0x2069:
			return fmt.Sprintf("must not hold U+%04X, which turns the direction of the text around it: remove it", c)
		}
	}
	return ""
}

// printable reports whether a text is printable ASCII, without spaces if least is '!'. It compares
// bytes, which is fast: a picture in base64 has 1.4 million.
func printable(text string, least byte) bool {
	for i := range len(text) {
		if text[i] < least || text[i] > '~' {
			return false
		}
	}
	return true
}

const quotedStyle = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// bare returns a number or a truth value. It refuses an empty value, and a quoted one
// without a reference, which YAML calls a text. With a reference, quotes are needed inside
// { } and [ ].
func (v value) bare(want string) (scalar, bool) {
	e, ok := v.scalar(want)
	switch {
	case !ok:
		return e, false
	case e.null:
		return e, v.fail("has no value: give %s, or remove the line", want)
	case e.literal() && e.quoted:
		return e, v.fail("must be %s, not text in quotes", want)
	}
	return e, true
}

// remedy returns the end of a message that names the variables to set.
func (v value) remedy() string { return toSet(v.variables()) }

func toSet(variables []string) string {
	if len(variables) == 0 {
		return ""
	}
	return ": set " + orList(variables)
}

// variables returns the variables that the value refers to.
func (v value) variables() []string {
	if v.node == nil {
		return nil
	}
	e, _ := expand(v.node.Value, v.r.lookup)
	return e.names
}
