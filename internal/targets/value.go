package targets

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"poold/internal/captcha"
)

// maxText is the longest text value, in bytes.
const maxText = 2048

// reader collects what is wrong while the nodes are walked.
type reader struct {
	file     string
	lookup   func(string) (string, bool)
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

// value is one node of the file and what is needed to complain about it. Its
// reading methods report what is wrong themselves and answer whether the value
// may be used.
type value struct {
	r    *reader
	node *yaml.Node
	path string // of keys, such as targets.login.depth; "" for the whole file
	line int    // of the key, or of the item in a list
}

// fail reports a fault of this value and returns false, for `return v.fail(…)`.
func (v value) fail(format string, args ...any) bool {
	text := fmt.Sprintf(format, args...)
	if v.path != "" {
		text = v.path + ": " + text
	}
	v.r.fail(v.line, "%s", text)
	return false
}

// isNull reports whether a key was written without a value.
func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// plain refuses anchors, aliases and tags. A secret that begins with one of
// their characters and was not quoted ends up here too.
func (v value) plain() bool {
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
	if !v.plain() {
		return expansion{}, false
	}
	if v.node.Kind != yaml.ScalarNode {
		return expansion{}, v.fail("must be %s", want)
	}
	e, problem := expand(v.node.Value, v.r.lookup)
	if problem != "" {
		return expansion{}, v.fail("%s", problem)
	}
	return e, true
}

// not ends a rule with the offending value, where it may be shown.
func (e expansion) not() string {
	if !e.literal() {
		return fmt.Sprintf("; ${%s} gives something else", e.names[0])
	}
	return ", not " + quote(e.text)
}

// secret reads a text that no message may show. A key without a value is "".
func (v value) secret(dst *captcha.Secret) (names []string, ok bool) {
	e, ok := v.scalar("text")
	if !ok {
		return nil, false
	}
	if isNull(v.node) {
		e.text = ""
	}
	switch {
	case strings.IndexFunc(e.text, isControl) >= 0:
		return nil, v.fail("must not hold line breaks or other control characters")
	case strings.TrimSpace(e.text) != e.text:
		return nil, v.fail("must not begin or end with a space")
	case len(e.text) > maxText:
		return nil, v.fail("must not be longer than %d bytes", maxText)
	}
	*dst = captcha.Secret(e.text)
	return e.names, true
}

// text reads any text, also an empty one. Numbers and truth values are taken as
// they are written, because an identifier may look like one.
func (v value) text(dst *string) bool {
	_, ok := v.expansion(dst)
	return ok
}

// expansion is text for those that go on to judge the value.
func (v value) expansion(dst *string) (expansion, bool) {
	var s captcha.Secret
	names, ok := v.secret(&s)
	*dst = s.Reveal()
	return expansion{text: *dst, names: names}, ok
}

// required reads a text that must not be empty.
func (v value) required(dst *string) bool {
	if !v.text(dst) {
		return false
	}
	if *dst == "" {
		return v.fail("must not be empty")
	}
	return true
}

// matching reads a text of a certain form; rule describes it.
func (v value) matching(dst *string, form *regexp.Regexp, rule string) bool {
	e, ok := v.expansion(dst)
	if ok && !form.MatchString(e.text) {
		return v.fail("must be %s%s", rule, e.not())
	}
	return ok
}

// choice reads one word of a few.
func (v value) choice(dst *string, words ...string) bool {
	e, ok := v.expansion(dst)
	if !ok || slices.Contains(words, e.text) {
		return ok
	}
	meant := nearest(e.text, words)
	if !e.literal() || meant == "" {
		return v.fail("must be %s%s", orList(words), e.not())
	}
	return v.fail("must be %s%s; did you mean %s?", orList(words), e.not(), meant)
}

// bare refuses an empty value and a quoted one without a reference, which YAML
// would call a text. With a reference, quotes are needed inside { } and [ ].
func (v value) bare(e expansion, want string) bool {
	switch {
	case isNull(v.node):
		return v.fail("has no value: give %s, or remove the line", want)
	case e.literal() && v.node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return v.fail("must be %s, not text in quotes", want)
	}
	return true
}

// boolean reads true or false.
func (v value) boolean(dst *bool) bool {
	const want = "true or false"
	e, ok := v.scalar(want)
	if !ok || !v.bare(e, want) {
		return false
	}
	switch e.text {
	case "true", "True", "TRUE":
		*dst = true
	case "false", "False", "FALSE":
		*dst = false
	default:
		return v.fail("must be %s%s", want, e.not())
	}
	return true
}

// integer reads a whole number from lo to hi.
func (v value) integer(dst *int, lo, hi int) bool {
	want := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	e, ok := v.scalar(want)
	if !ok || !v.bare(e, want) {
		return false
	}
	// YAML reads 010 as eight and people read it as ten.
	if len(e.text) > 1 && e.text[0] == '0' && digits(e.text) {
		return v.fail("must be %s without a zero in front, which YAML takes for an octal number", want)
	}
	n, err := strconv.Atoi(e.text)
	if err != nil || !digits(e.text) || n < lo || n > hi {
		return v.fail("must be %s%s", want, e.not())
	}
	*dst = n
	return true
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// decimal is a number that means the same to YAML, to Go and to people.
var decimal = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// number reads a decimal number from lo to hi.
func (v value) number(dst *float64, lo, hi float64) bool {
	// %g would write a million as 1e+06, which the rule below refuses.
	plain := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	want := fmt.Sprintf("a number from %s to %s", plain(lo), plain(hi))
	e, ok := v.scalar(want)
	if !ok || !v.bare(e, want) {
		return false
	}
	n, err := strconv.ParseFloat(e.text, 64)
	if err != nil || !decimal.MatchString(e.text) || n < lo || n > hi {
		return v.fail("must be %s%s", want, e.not())
	}
	*dst = n
	return true
}

// duration reads a length of time from lo to hi. A bare number is refused:
// nobody should have to guess whether 80 means seconds.
func (v value) duration(dst *time.Duration, lo, hi time.Duration) bool {
	want := fmt.Sprintf("a duration from %s to %s", short(lo), short(hi))
	e, ok := v.scalar(want)
	if !ok {
		return false
	}
	if isNull(v.node) {
		return v.fail("has no value: give %s, or remove the line", want)
	}
	if decimal.MatchString(e.text) {
		example := "80s"
		if e.literal() {
			example = e.text + "s"
		}
		return v.fail("needs a unit (ms, s, m or h): write %s, for example", example)
	}
	d, err := time.ParseDuration(e.text)
	if err != nil || d < lo || d > hi || strings.ContainsAny(e.text[:1], "+-") {
		return v.fail("must be %s, such as 90s or 1m30s%s", want, e.not())
	}
	*dst = d
	return true
}

// short writes a duration without its zero parts: 24h, not 24h0m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// rate reads "so many per second, minute or hour".
func (v value) rate(dst *Rate) bool {
	const want = "a rate such as 20/s, 30/m or 500/h"
	var text string
	e, ok := v.expansion(&text)
	if !ok {
		return false
	}
	count, unit, _ := strings.Cut(text, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(count, 64)
	if err != nil || per == 0 || !decimal.MatchString(count) {
		return v.fail("must be %s%s", want, e.not())
	}
	if n <= 0 || n > 1e6 {
		return v.fail("must be above 0 and at most 1000000: for no limit, remove the line")
	}
	if n < 1 && float64(per)/n > float64(24*time.Hour) {
		return v.fail("must be at least 1 in 24 hours: to hand out nothing, remove the target")
	}
	*dst = Rate{Count: n, Per: per}
	return true
}
