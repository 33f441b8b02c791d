package targets

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"pgregory.net/rapid"
)

// drawn generates a random configuration file from the struct tags. Each value is valid by
// itself, except for one random fault.
type drawn struct {
	*rapid.T
	fault func(k kind) []string // texts that are invalid values of a kind
	left  bool                  // whether the fault is still to be added to the file
	what  string                // the place of the fault
}

// validTexts has valid values of the kinds without a pattern.
var validTexts = map[string][]string{
	"listen": {"127.0.0.1:8080", ":80"}, "url": {"https://solver.example.com/a/", "http://127.0.0.1:9"},
	"redis.url":    {"embedded", "redis://a:1,redis://b:2", "unix:///run/redis.sock"},
	"callback_url": {"", "https://pools.example.com"}, "pageurl": {"https://staging.example.com/login?a=b"},
	"proxy": {"", "other.example.com:1", "u:p@h:1"}, "targets": {"staging-*", "a"}, "rate": {"20/s", "0.5/m", "500/h"},
	"pages": {"https://*.example.com/*", "http://[::1]:*/a"}, "dedup.url": {"", "postgres://u:p@h/d", "postgresql:///d?host=/run"},
	"endpoint": {"", "http://127.0.0.1:8000"}, "currency": {"", "USD", "$", "kr."},
	"cron": {"55 8 * * 1-5", "@daily", "CRON_TZ=Asia/Tokyo 0 8 * * *"},
}

// value returns a random value of this key as a text in flow style.
func (d *drawn) value(k kind, key string) string {
	if d.left && rapid.IntRange(0, 5).Draw(d.T, "fault here") == 0 {
		if bad := d.fault(k); len(bad) > 0 {
			d.left = false
			text := rapid.SampledFrom(bad).Draw(d.T, "fault")
			d.what = key + ": " + text
			return text
		}
	}
	switch k := k.(type) {
	case section:
		return "{" + strings.Join(d.fields(k), ", ") + "}"
	case mapping:
		names := rapid.SliceOfNDistinct(rapid.StringMatching(k.form.String()), 1, 3, rapid.ID[string]).Draw(d.T, "names")
		for i, name := range names {
			names[i] = strconv.Quote(name) + ": " + d.value(k.item, name)
		}
		return "{" + strings.Join(names, ", ") + "}"
	case list:
		return "[" + strings.Join(d.items(k, key), ", ") + "]"
	case numberOr:
		if rapid.Bool().Draw(d.T, "one number") {
			return d.scalar(k.section.fields[0].kind, key)
		}
		return "{" + strings.Join(d.fields(k.section), ", ") + "}"
	}
	text := d.scalar(k, key)
	bare := text
	if strings.ContainsAny(text[:1], `'"`) {
		bare = text[1 : len(text)-1]
	}
	if !strings.ContainsAny(bare, "\"\\}$") && rapid.IntRange(0, 9).Draw(d.T, "by reference") == 0 {
		return `"${UNSET:-` + bare + `}"`
	}
	return text
}

func (d *drawn) fields(s section) (texts []string) {
	for _, f := range s.fields {
		if f.must || rapid.Bool().Draw(d.T, f.key) {
			key := f.key
			switch {
			case key == "url" && f.preset.IsValid():
				key = "redis.url"
			case key == "url" && s.fields[0].key == "backend": // the section history too
				key = "dedup.url"
			}
			texts = append(texts, f.key+": "+d.value(f.kind, key))
		}
	}
	return texts
}

func (d *drawn) items(k list, key string) (texts []string) {
	n := rapid.IntRange(0, 3).Draw(d.T, "items")
	if k.set {
		n = 1 // two items might be equal, and equal items are invalid
	}
	for range n {
		texts = append(texts, d.value(k.item, key))
	}
	return texts
}

func (d *drawn) scalar(k kind, key string) string {
	switch k := k.(type) {
	case boolean:
		return rapid.SampledFrom([]string{"true", "false", "True"}).Draw(d.T, key)
	case number:
		if k.whole {
			return strconv.Itoa(rapid.IntRange(int(k.lo), int(k.hi)).Draw(d.T, key))
		}
		return strconv.FormatFloat(rapid.Float64Range(k.lo, k.hi).Draw(d.T, key), 'f', 4, 64)
	case duration:
		return time.Duration(rapid.Int64Range(int64(k.lo), int64(k.hi)).Draw(d.T, key)).String()
	case textual:
		switch {
		case k.words != nil:
			return rapid.SampledFrom(k.words).Draw(d.T, key)
		case validTexts[key] != nil:
			return "'" + rapid.SampledFrom(validTexts[key]).Draw(d.T, key) + "'"
		case k.pattern != "":
			return strconv.Quote(rapid.StringMatching(k.pattern).Filter(func(s string) bool { return !strings.Contains(s, "${") }).Draw(d.T, key))
		}
		return rapid.SampledFrom([]string{"some text", "5", "1e3", "true", "'a: b'", "'$${'", "0123456789abcdef"}).Draw(d.T, key)
	}
	d.Fatalf("no values are known for %T", k)
	return ""
}

// faults returns invalid texts that both the reader and the schema refuse.
func faults(k kind) []string {
	switch k := k.(type) {
	case section:
		all := []string{"5", "[]", "'${UNSET:-}'", "{nonsense: 1}", "{1: 1}"}
		if slices.ContainsFunc(k.fields, func(f field) bool { return f.must }) {
			all = append(all, "{}", "null")
		}
		return all
	case mapping:
		return []string{"5", "[]", "{}", "null", "{'A b': null}"}
	case list:
		all := []string{"5", "{a: 1}", "'${UNSET:-}'", "[[]]"}
		if k.set {
			all = append(all, "[]", "null")
		}
		if k.maxItems > 0 {
			all = append(all, "["+strings.Repeat("{cron: '@daily', tokens: 1, for: 1s}, ", k.maxItems+1)+"]")
		}
		return all
	case numberOr:
		return []string{"-1", "1000001", "'5'", "null", "[]", "{nonsense: 1}", "{turnstile: x}"}
	case boolean:
		return []string{"yes", "1", "'true'", "null", "[]", "{}", "'$UNSET'", "'${UN-SET}'"}
	case number:
		if k.whole {
			return []string{fmt.Sprint(k.lo - 1), fmt.Sprint(int(k.hi) + 1), "1.5", "'5'", "null", "[]", "{}", "x", "true"}
		}
		return []string{fmt.Sprint(k.lo - 0.01), fmt.Sprint(k.hi + 0.01), "'0.9'", "null", "[]", "x", "true"}
	case duration:
		return []string{"5", "'5'", "1.5", "-5s", "+5s", "''", "null", "[5s]", "5x", "5s 1m", "s", ".s", "true"}
	case textual:
		all := []string{"[]", "{a: 1}"}
		if k.words != nil || k.pattern != "" {
			all = append(all, "null", "''", "'no such word!'")
		} else if _, rule := k.parse(scalar{}); rule != "" {
			all = append(all, "null", "''")
		}
		return all
	}
	return nil
}

// oddValues returns values that are valid for only some keys.
func oddValues(kind) []string {
	return []string{"null", "~", "''", "5", "0", "-1", "1.5", "0.5", "010", "0x10", "1e3", "1_000", ".5", "5.", "+5", ".inf", "true", "TRUE", "yes", "'5'", "'true'",
		"5s", "1.s", ".5m", "1h30m", "1us", "1µs", "1d", "'0'", "20/s", "1/h", "00/s", "'${UNSET:-5}'", "'${UNSET:-}'", "'x${UNSET:-5s}'", "'$${UNSET}'", "'${UNSET:-$5}'",
		"[]", "[a]", "[1, 1.0]", "[true, True]", "[null]", "{}", "{a: 1}", "{per_day: 5}", "2026-01-01", "12:30", "'a b'", "embedded", "@daily", "h:1"}
}
