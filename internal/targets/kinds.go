package targets

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"poold/internal/captcha"
)

// A kind is what a value may be. It reads one and describes it to editors.
type kind interface {
	// read returns what the value says, in the type that the kind names, and whether
	// it may be used. What is wrong it has reported.
	read(v value) (got any, ok bool)

	// schema describes the values that read takes, and perhaps more. A text with a
	// ${reference} is always one: what it stands for is known to the daemon alone.
	schema() schema
}

// textual is a kind of text, as whatever parse makes of it.
type textual struct {
	parse   func(e expansion) (got any, rule string) // rule says what is wrong, "" for nothing
	words   []string                                 // where these are all the texts that there are
	pattern string                                   // a regular expression of the texts; "" = not told
	most    int                                      // bytes that a text may have; 0 = maxText
}

func (k textual) read(v value) (any, bool) {
	e, ok := v.text(cmp.Or(k.most, maxText))
	if !ok {
		return nil, false
	}
	got, rule := k.parse(e)
	if rule != "" {
		return got, v.fail("%s", rule)
	}
	return got, true
}

var (
	// anyText is a text, also an empty one, as a string.
	anyText = textual{parse: func(e expansion) (any, string) { return e.text, "" }}

	// someText is a text that is not empty, as a string.
	someText = textual{parse: func(e expansion) (any, string) {
		if e.text == "" {
			return nil, "must not be empty"
		}
		return e.text, ""
	}}

	// longText is a text, also an empty one, that a page computes for one visit, as a
	// string.
	longText = textual{most: maxLongText, parse: anyText.parse}

	// siteKey is what a vendor knows a site by, as a string.
	siteKey = form(`^[!-~]{1,256}$`, "1 to 256 characters without spaces")

	// secret is a text, also an empty one, as a captcha.Secret. What is wrong with one
	// is told without the value.
	secret = textual{parse: func(e expansion) (any, string) { return captcha.Secret(e.text), "" }}
)

// form is a text of a certain form, as a string; rule describes it.
func form(pattern, rule string) textual {
	matches := regexp.MustCompile(pattern).MatchString
	return textual{pattern: pattern, parse: func(e expansion) (any, string) {
		if !matches(e.text) {
			return nil, "must be " + rule + e.not()
		}
		return e.text, ""
	}}
}

// word is one of a few words, as a string.
func word[T ~string](words ...T) textual {
	var known []string
	for _, w := range words {
		known = append(known, string(w))
	}
	return textual{words: known, parse: func(e expansion) (any, string) {
		if slices.Contains(known, e.text) {
			return e.text, ""
		}
		rule := "must be " + orList(known) + e.not()
		if meant := Nearest(e.text, known); e.literal() && meant != "" {
			rule += "; did you mean " + meant + "?"
		}
		return nil, rule
	}}
}

// decimal is a number that means the same to YAML, to Go and to people.
const decimalPattern = `(0|[1-9][0-9]*)(\.[0-9]+)?`

var decimal = regexp.MustCompile(`^` + decimalPattern + `$`)

// rate is "so many per second, minute or hour", as a Rate.
var rate = textual{pattern: `^` + decimalPattern + `/[smh]$`, parse: func(e expansion) (any, string) {
	count, unit, _ := strings.Cut(e.text, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(count, 64)
	switch {
	case err != nil || per == 0 || !decimal.MatchString(count):
		return nil, "must be a rate such as 20/s, 30/m or 500/h" + e.not()
	case n <= 0 || n > 1e6:
		return nil, "must be above 0 and at most 1000000: for no limit, remove the line"
	case n < 1 && float64(per)/n > float64(24*time.Hour):
		return nil, "must be at least 1 in 24 hours: to hand out nothing, remove the target"
	}
	return Rate{Count: n, Per: per}, ""
}}

// Size is a number of bytes.
type Size int64

// String writes a size as the file does, such as 256MiB.
func (s Size) String() string {
	for _, unit := range sizeUnits {
		if s >= unit.bytes && s%unit.bytes == 0 {
			return strconv.FormatInt(int64(s/unit.bytes), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

var sizeUnits = []struct {
	name  string
	bytes Size
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// size is a number of bytes from lo to hi with its unit, as a Size.
func size(lo, hi Size) textual {
	return textual{pattern: `^[1-9][0-9]*(KiB|MiB|GiB)$`, parse: func(e expansion) (any, string) {
		for _, unit := range sizeUnits {
			count, is := strings.CutSuffix(e.text, unit.name)
			n, err := strconv.ParseInt(count, 10, 32)
			if is && err == nil && digits(count) && count[0] != '0' && Size(n) <= hi/unit.bytes && Size(n)*unit.bytes >= lo {
				return Size(n) * unit.bytes, ""
			}
		}
		return nil, fmt.Sprintf("must be a size from %s to %s with its unit (KiB, MiB or GiB), such as 256MiB%s", lo, hi, e.not())
	}}
}

func (k textual) schema() schema {
	if k.words != nil {
		return schema{"anyOf": []schema{{"enum": k.words}, {"$ref": "#/$defs/reference"}}}
	}
	// Without quotes, a text may look like a number or a truth value.
	types := []string{"string", "number", "boolean"}
	_, empty := k.parse(expansion{})
	switch {
	case k.pattern != "":
		return schema{"type": types, "pattern": k.pattern + "|" + reference}
	case empty != "":
		return schema{"type": types, "minLength": 1}
	}
	return schema{"type": append(types, "null")}
}

// boolean is true or false, as a bool.
type boolean struct{}

func (boolean) read(v value) (any, bool) {
	const want = "true or false"
	e, ok := v.bare(want)
	if !ok {
		return nil, false
	}
	switch e.text {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return nil, v.fail("must be %s%s", want, e.not())
}

func (boolean) schema() schema { return orReference("boolean") }

// integer is a whole number from lo to hi, as an int.
type integer struct{ lo, hi int }

func (k integer) read(v value) (any, bool) {
	want := fmt.Sprintf("a whole number from %d to %d", k.lo, k.hi)
	e, ok := v.bare(want)
	if !ok {
		return nil, false
	}
	// YAML reads 010 as eight and people read it as ten.
	if len(e.text) > 1 && e.text[0] == '0' && digits(e.text) {
		return nil, v.fail("must be %s without a zero in front, which YAML takes for an octal number", want)
	}
	n, err := strconv.Atoi(e.text)
	if err != nil || !digits(e.text) || n < k.lo || n > k.hi {
		return nil, v.fail("must be %s%s", want, e.not())
	}
	return n, true
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func (k integer) schema() schema {
	s := orReference("integer")
	s["minimum"], s["maximum"] = k.lo, k.hi
	return s
}

// number is a decimal number from lo to hi, as a float64.
type number struct{ lo, hi float64 }

func (k number) read(v value) (any, bool) {
	// %g would write a million as 1e+06, which the rule below refuses.
	written := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	want := fmt.Sprintf("a number from %s to %s", written(k.lo), written(k.hi))
	e, ok := v.bare(want)
	if !ok {
		return nil, false
	}
	n, err := strconv.ParseFloat(e.text, 64)
	if err != nil || !decimal.MatchString(e.text) || n < k.lo || n > k.hi {
		return nil, v.fail("must be %s%s", want, e.not())
	}
	return n, true
}

func (k number) schema() schema {
	s := orReference("number")
	s["minimum"], s["maximum"] = k.lo, k.hi
	return s
}

// duration is a length of time from lo to hi, as a time.Duration. A bare number is
// refused: nobody should have to guess whether 80 means seconds.
type duration struct{ lo, hi time.Duration }

func (k duration) read(v value) (any, bool) {
	want := fmt.Sprintf("a duration from %s to %s", short(k.lo), short(k.hi))
	unit, such := "s", "90s or 1m30s"
	if k.hi > longest {
		unit, such = "h", "168h"
	}
	e, ok := v.scalar(want)
	if !ok {
		return nil, false
	}
	if isNull(v.node) {
		return nil, v.fail("has no value: give %s, or remove the line", want)
	}
	if decimal.MatchString(e.text) {
		example := "80" + unit
		if e.literal() {
			example = e.text + unit
		}
		return nil, v.fail("needs a unit (ms, s, m or h): write %s, for example", example)
	}
	d, err := time.ParseDuration(e.text)
	if err != nil || d < k.lo || d > k.hi || strings.ContainsAny(e.text[:1], "+-") {
		return nil, v.fail("must be %s, such as %s%s", want, such, e.not())
	}
	return d, true
}

// schema tells the form and not the range, which no pattern can.
func (duration) schema() schema {
	return schema{"type": "string", "pattern": `^(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|` + reference}
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

// numberOr is one number, as a float64, or a section, as a record.
type numberOr struct {
	number  number
	section section
}

func (k numberOr) read(v value) (any, bool) {
	switch {
	case !v.noTags():
		return nil, false
	case v.node.Kind == yaml.MappingNode:
		return k.section.read(v)
	case v.node.Kind != yaml.ScalarNode:
		return nil, v.fail("must be a number, or a mapping of types to numbers such as {turnstile: 1.2}")
	}
	return k.number.read(v)
}

func (k numberOr) schema() schema {
	s := k.section.schema()
	for key, rule := range k.number.schema() {
		s[key] = rule
	}
	s["type"] = []string{"number", "string", "object"}
	return s
}
