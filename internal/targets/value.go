package targets

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"poold/internal/targets/syntax"
)

// The maximum lengths of texts, in bytes.
const (
	maxText     = 2048
	maxLongText = 16 << 10
)

// reader collects the problems and warnings of one file or request.
type reader struct {
	file     string // name of the file in messages; "" for a request
	refs     References
	request  bool // whether this is a request, in which all texts are in quotes
	problems Problems
	warnings Problems
}

// fail reports a problem that makes the file invalid.
func (r *reader) fail(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{File: r.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

// warn reports an unusual but allowed setting.
func (r *reader) warn(line int, format string, args ...any) {
	r.warnings = append(r.warnings, Problem{File: r.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

// warnOfDemo reports a reason why the daemon buys only simulated tokens.
func (r *reader) warnOfDemo(line int, format string, args ...any) {
	r.warn(line, format, args...)
	r.warnings[len(r.warnings)-1].demo = true
}

// value is one node of the file, with its position for messages.
type value struct {
	r    *reader
	node *yaml.Node // nil if the value is not in the file

	path string // path of keys, such as targets.login.depth; "" for the whole file
	key  string // the last key of the path; "" for the whole file and for list items
	line int    // line of the key, or of the item of a list
}

// fail reports a problem of this value and returns false, so that callers can write `return
// v.fail(…)`.
func (v value) fail(format string, args ...any) bool {
	v.r.fail(v.line, "%s", v.message(format, args))
	return false
}

// warn reports that this value is unusual but allowed.
func (v value) warn(format string, args ...any) { v.r.warn(v.line, "%s", v.message(format, args)) }

func (v value) message(format string, args []any) string {
	return strings.TrimPrefix(v.path+": ", ": ") + fmt.Sprintf(format, args...)
}

// entry is a value of the file with the entries inside the value.
type entry struct {
	value
	ok    bool             // whether the value is valid
	read  bool             // whether the field keys is complete: the value is a mapping or null
	keys  map[string]entry // entries of a section, by key
	items []entry          // entries of a list, or of a mapping of names
}

// hasKey reports whether the file contains the key, with a valid or an invalid value.
func (e entry) hasKey(key string) bool {
	_, written := e.keys[key]
	return written
}

// hasInvalid reports whether one of these keys has an invalid value. If a key has an invalid value,
// rules that involve several keys report nothing, because the invalid value is already reported.
func (e entry) hasInvalid(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool { return e.hasKey(key) && !e.keys[key].ok })
}

// requireKeys reports a problem for each of these keys that the file lacks.
func (e entry) requireKeys(keys ...string) {
	for _, key := range keys {
		if !e.hasKey(key) {
			e.child(key).fail("is missing")
		}
	}
}

// checkUnique reports a problem if an earlier entry has the same name. The map `lines` contains the
// line of each earlier name.
func (e entry) checkUnique(what, name string, lines map[string]int) {
	if line := lines[name]; line > 0 {
		e.fail("has the same name as the %s in line %d: names are unique", what, line)
	} else if name != "" {
		lines[name] = e.line
	}
}

// firstEntry returns the entry of the first of these keys that the file contains. If the file
// contains none of them, firstEntry returns an entry for the last key, with the line of the
// section.
func (e entry) firstEntry(keys ...string) entry {
	for _, key := range keys {
		if e.hasKey(key) {
			return e.keys[key]
		}
	}
	return entry{value: e.child(keys[len(keys)-1])}
}

// child returns a value for a key below this value, with the same line and no node.
func (v value) child(key string) value {
	key = pathPart(key)
	return value{r: v.r, path: strings.TrimPrefix(v.path+"."+key, "."), key: key, line: v.line}
}

// noTags reports a problem and returns false if the value is an alias, or has an anchor or a tag.
// An unquoted secret that begins with *, & or ! is refused too.
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

// scalar returns the single value of the node, with replaced references. In messages, the argument
// `want` describes the expected value.
func (v value) scalar(want string) (scalar, bool) {
	if !v.noTags() {
		return scalar{}, false
	}
	if v.node.Kind != yaml.ScalarNode {
		return scalar{}, v.fail("must be %s", want)
	}
	e, problem := scalar{text: v.node.Value}, ""
	if !v.r.request {
		e, problem = expand(v.node.Value, v.r.refs)
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

// text returns the value as a text. No message quotes the text, because it may be a secret. Numbers
// and booleans count as texts too, because an identifier may look like a number or a boolean. The
// text of a key without a value is "".
func (v value) text(maximum int) (scalar, bool) {
	e, ok := v.scalar("text")
	if !ok {
		return e, false
	}
	if e.null {
		e.text = ""
	}
	ascii := isPrintable(e.text, ' ')
	switch {
	case v.r.request && !e.quoted:
		return e, v.fail("must be text, in quotes")
	case !ascii && v.r.request && strings.ContainsRune(e.text, utf8.RuneError): // the JSON decoder replaces invalid bytes by RuneError
		return e, v.fail("must be valid UTF-8")
	case !ascii && TextFault(e.text) != "":
		return e, v.fail("%s", TextFault(e.text))
	case strings.TrimSpace(e.text) != e.text:
		return e, v.fail("must not begin or end with a space")
	case len(e.text) > maximum:
		return e, v.fail("must not be longer than %d bytes", maximum)
	}
	return e, true
}

// TextFault returns why a text of an operator, such as an owner or the reason for a pause, cannot
// be shown in one line. It returns "" for a valid text. Characters that change the direction of
// text are invalid, because they would also change how the rest of the line is shown.
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

// isPrintable reports whether a text consists of ASCII characters from the minimum to '~'. The
// minimum '!' excludes spaces. The function must be fast, because a picture in base64 may have 1.4
// million bytes.
func isPrintable(text string, minimum byte) bool {
	for i := range len(text) {
		if text[i] < minimum || text[i] > '~' {
			return false
		}
	}
	return true
}

const quotedStyle = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle

// bareScalar returns the value of a number or a boolean as a scalar. It refuses an empty value and
// a quoted value without a reference, which is a text in YAML. A reference may be in quotes,
// because YAML requires quotes inside { } and [ ].
func (v value) bareScalar(want string) (scalar, bool) {
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

// remedy returns the last part of a message, which lists the environment variables to set.
func (v value) remedy() string { return toSet(v.variables()) }

func toSet(variables []string) string {
	if len(variables) == 0 {
		return ""
	}
	return ": set " + orList(variables)
}

// variables returns the names of the environment variables in the references of the value.
func (v value) variables() []string {
	if v.node == nil {
		return nil
	}
	e, _ := expand(v.node.Value, v.r.refs)
	return e.names
}
