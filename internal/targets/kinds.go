package targets

import (
	"cmp"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"poold/internal/captcha"
)

// A kind parses values of keys, and describes the valid values for editors.
type kind interface {
	// read stores a valid value in dst, and reports the problems of an invalid value.
	read(v value, dst reflect.Value) entry

	// schema returns a JSON Schema that accepts at least all values that read accepts. It accepts
	// any text with a ${reference}, because only the daemon knows the value of the variable.
	schema() schema
}

// textual is the kind of keys whose value is a text.
type textual struct {
	parse     func(e scalar) (got any, rule string) // parses a text; the result `rule` is the rule that the text violates, or ""
	words     []string                              // all valid texts; nil = the function parse decides
	pattern   string                                // a regular expression that valid texts match; "" = none
	maxLength int                                   // maximum length of a text in bytes; 0 = maxText
}

func (k textual) read(v value, dst reflect.Value) entry {
	e, ok := v.text(cmp.Or(k.maxLength, maxText))
	if !ok {
		return entry{value: v}
	}
	got, rule := k.parse(e)
	read := entry{value: v}
	if got != nil { // if the function parse also returns a value for an invalid text, that value is stored
		read = v.store(dst, got)
	}
	if rule != "" {
		read.ok = v.fail("%s", rule)
	}
	return read
}

// store converts a parsed value to the type of dst and stores the result in dst.
func (v value) store(dst reflect.Value, got any) entry {
	if dst.Type() == reflect.TypeFor[Price]() {
		got = Costs(got.(float64))
	}
	dst.Set(reflect.ValueOf(got).Convert(dst.Type()))
	return entry{value: v, ok: true}
}

// refuse reports a problem of the value, and returns an entry that marks the value as invalid.
func (v value) refuse(format string, args ...any) entry {
	return entry{value: v, ok: v.fail(format, args...)}
}

// texts maps the values of the tag `as` to kinds of text. A name of the form "VIEW NAME" applies
// only in the view VIEW.
var texts = map[string]textual{
	"":       {parse: anyText},
	"filled": {parse: filledText},
	"long":   {parse: anyText, maxLength: maxLongText},
	"type":   oneOf(captcha.SolvableTypes()...),

	viewTarget + " type": poolableType,

	"callback": {parse: callbackURL}, "cron": {parse: cronText}, "currency": {parse: currencyText}, "endpoint": {parse: endpointURL}, "glob": {parse: glob},
	"page": {parse: pagePattern}, "pageurl": {parse: pageURL}, "picture": {parse: picture, maxLength: 2 * MostPicture},
	"postgres": {parse: postgresURL}, "provider": {parse: providerURL}, "proxy": {parse: proxy}, "redis": {parse: redisURL},
}

func anyText(e scalar) (any, string) { return e.text, "" }

func filledText(e scalar) (any, string) {
	if e.text == "" {
		return nil, "must not be empty"
	}
	return e.text, ""
}

// patternText returns a kind of text whose valid values match a pattern. In messages, the argument
// `rule` describes the valid texts.
func patternText(pattern, rule string) textual {
	matches := regexp.MustCompile(pattern).MatchString
	return textual{pattern: pattern, parse: func(e scalar) (any, string) {
		if !matches(e.text) {
			return nil, "must be " + rule + e.notText()
		}
		return e.text, ""
	}}
}

// oneOf returns a kind of text whose valid values are the given words.
func oneOf[T ~string](words ...T) textual {
	var known []string
	for _, w := range words {
		known = append(known, string(w))
	}
	return textual{words: known, parse: func(e scalar) (any, string) {
		if slices.Contains(known, e.text) {
			return e.text, ""
		}
		rule := "must be " + orList(known) + e.notText()
		if meant := Nearest(e.text, known); e.literal() && meant != "" {
			rule += "; did you mean " + meant + "?"
		}
		return nil, rule
	}}
}

// decimalPattern matches the numbers that have the same meaning in YAML, in Go and for people.
const decimalPattern = `(0|[1-9][0-9]*)(\.[0-9]+)?`

var decimal = regexp.MustCompile(`^` + decimalPattern + `$`)

// rate is the kind of texts such as 5/m: a number per second, minute or hour. The parsed value has
// the type Rate.
var rate = textual{pattern: `^` + decimalPattern + `/[smh]$`, parse: func(e scalar) (any, string) {
	count, unit, _ := strings.Cut(e.text, "/")
	per := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	n, err := strconv.ParseFloat(count, 64)
	switch {
	case err != nil || per == 0 || !decimal.MatchString(count):
		return nil, "must be a rate such as 20/s, 30/m or 500/h" + e.notText()
	case n <= 0 || n > 1e6:
		return nil, "must be above 0 and at most 1000000: for no limit, remove the line"
	case n < 1 && float64(per)/n > float64(24*time.Hour):
		return nil, "must be at least 1 in 24 hours: to hand out nothing, remove the target"
	}
	return Rate{Count: n, Per: per}, ""
}}

func (k textual) schema() schema {
	if k.words != nil {
		return schema{"anyOf": []schema{{"enum": k.words}, {"$ref": "#/$defs/reference"}}}
	}
	// An editor treats a text without quotes as a number or a boolean if possible.
	types := []string{"string", "number", "boolean"}
	_, empty := k.parse(scalar{})
	switch {
	case k.pattern != "":
		return schema{"type": types, "pattern": k.pattern + "|" + reference}
	case empty != "":
		return schema{"type": types, "minLength": 1}
	}
	return schema{"type": append(types, "null")}
}

// boolean is the kind of the values true and false.
type boolean struct{}

func (boolean) read(v value, dst reflect.Value) entry {
	const want = "true or false"
	e, ok := v.bareScalar(want)
	if !ok {
		return entry{value: v}
	}
	switch e.text {
	case "true", "True", "TRUE":
		return v.store(dst, true)
	case "false", "False", "FALSE":
		return v.store(dst, false)
	}
	return v.refuse("must be %s%s", want, e.notText())
}

func (boolean) schema() schema { return orReference("boolean") }

// number is the kind of decimal numbers from lo to hi. If the field `whole` is true, the numbers
// must be integers.
type number struct {
	lo, hi float64
	whole  bool
}

func (k number) read(v value, dst reflect.Value) entry {
	// The verb %g would format a million as 1e+06, which is invalid in the file.
	written := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	want := fmt.Sprintf("a number from %s to %s", written(k.lo), written(k.hi))
	if k.whole {
		want = strings.Replace(want, "number", "whole number", 1)
	}
	e, ok := v.bareScalar(want)
	if !ok {
		return entry{value: v}
	}
	if k.whole && digits(e.text) && len(e.text) > 1 && e.text[0] == '0' { // 010 means eight in YAML, but ten for people
		return v.refuse("must be %s without a zero in front, which YAML takes for an octal number", want)
	}
	n, err := strconv.ParseFloat(e.text, 64)
	if err != nil || !decimal.MatchString(e.text) || k.whole && !digits(e.text) || n < k.lo || n > k.hi {
		return v.refuse("must be %s%s", want, e.notText())
	}
	return v.store(dst, n)
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func (k number) schema() schema {
	s := orReference("number")
	if k.whole {
		s = orReference("integer")
	}
	s["minimum"], s["maximum"] = k.lo, k.hi
	return s
}

// duration is the kind of durations from lo to hi. A number without a unit is refused, because 80
// may mean seconds or milliseconds.
type duration struct{ lo, hi time.Duration }

func (k duration) read(v value, dst reflect.Value) entry {
	want := fmt.Sprintf("a duration from %s to %s", shortDuration(k.lo), shortDuration(k.hi))
	unit, such := "s", "90s or 1m30s"
	if k.hi > 24*time.Hour {
		unit, such = "h", "168h"
	}
	e, ok := v.scalar(want)
	if !ok {
		return entry{value: v}
	}
	if e.null {
		return v.refuse("has no value: give %s, or remove the line", want)
	}
	if decimal.MatchString(e.text) {
		example := "80" + unit
		if e.literal() {
			example = e.text + unit
		}
		return v.refuse("needs a unit (ms, s, m or h): write %s, for example", example)
	}
	d, err := time.ParseDuration(e.text)
	if err != nil || d < k.lo || d > k.hi || strings.ContainsAny(e.text[:1], "+-") {
		return v.refuse("must be %s, such as %s%s", want, such, e.notText())
	}
	return v.store(dst, d)
}

// schema describes only the form of durations, because a pattern cannot express their range.
func (duration) schema() schema {
	return schema{"type": "string", "pattern": `^(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$|` + reference}
}

// shortDuration formats a duration without zero parts, such as 24h instead of 24h0m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// numberOr is the kind of keys whose value is a section, or a number that sets all fields of the
// section.
type numberOr struct{ section section }

func (k numberOr) read(v value, dst reflect.Value) entry {
	switch {
	case !v.noTags():
		return entry{value: v}
	case v.node.Kind == yaml.MappingNode:
		return k.section.read(v, dst)
	case v.node.Kind != yaml.ScalarNode:
		return v.refuse("must be a number, or a mapping of types to numbers such as {turnstile: 1.2}")
	}
	var e entry
	for i, f := range k.section.fields {
		if to := dst.FieldByIndex(f.index); i == 0 {
			e = f.kind.read(v, to)
		} else if e.ok {
			to.Set(dst.FieldByIndex(k.section.fields[0].index))
		}
	}
	return e
}

func (k numberOr) schema() schema {
	s := k.section.schema()
	for key, rule := range k.section.fields[0].kind.schema() {
		s[key] = rule
	}
	s["type"] = []string{"number", "string", "object"}
	return s
}
