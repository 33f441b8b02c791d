package targets

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// window is an item of `warm`.
func window(cron string, tokens int, long string) string {
	return fmt.Sprintf("{cron: %q, tokens: %d, for: %s}", cron, tokens, long)
}

// warm is what becomes of one.
func warm(t *testing.T, cron string, tokens int, long string) Warm {
	t.Helper()
	return mustParse(t, minimal("warm: ["+window(cron, tokens, long)+"]"), nil).Targets[0].Warm[0]
}

// A target's own windows replace those of the defaults, which stay as they are.
func TestWarmOfDefaults(t *testing.T) {
	second := func(lines string) string {
		return "  other:\n    type: recaptcha_v2\n    sitekey: k\n    pageurl: https://staging.example.com/o\n    owner: qa@example.com\n" + lines
	}
	defaults := "defaults:\n  warm: [" + window("0 8 * * *", 10, "30m") + ", " + window("0 9 * * *", 11, "30m") + "]\n"
	for _, tc := range []struct {
		name, own string
		want      []Warm
	}{
		{"inherited", "", []Warm{warm(t, "0 8 * * *", 10, "30m"), warm(t, "0 9 * * *", 11, "30m")}},
		{"replaced", "    warm: [" + window("0 7 * * *", 8, "1h") + "]\n", []Warm{warm(t, "0 7 * * *", 8, "1h")}},
		{"switched off", "    warm: []\n", nil},
		{"switched off by comments", "    warm:\n    # - none\n", nil},
	} {
		set := mustParse(t, defaults+minimal()+second(tc.own), nil)
		if got := set.Targets[1].Warm; !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		if got := set.Targets[0].Warm; len(got) != 2 || got[0].Tokens != 10 || got[1].Tokens != 11 {
			t.Errorf("%s: the other target has %+v", tc.name, got)
		}
	}
	if got := mustParse(t, minimal(), nil).Targets[0].Warm; got != nil {
		t.Errorf("without the key: %+v", got)
	}
}

// A file that is read anew gives equal targets, or a reload would disturb every
// worker; and each key of a window makes another target.
func TestTargetsAreCompared(t *testing.T) {
	parse := func(lines ...string) Target { return mustParse(t, minimal(lines...), nil).Targets[0] }
	base := "warm: [" + window("CRON_TZ=Asia/Tokyo 0 8 * * *", 10, "30m") + "]"
	if !reflect.DeepEqual(parse(base), parse(base)) {
		t.Error("two readings of one file differ")
	}
	for _, other := range []string{
		"warm: []", "budget: {per_day: 6}",
		"warm: [" + window("CRON_TZ=Asia/Tokyo 0 9 * * *", 10, "30m") + "]",
		"warm: [" + window("CRON_TZ=Asia/Seoul 0 8 * * *", 10, "30m") + "]",
		"warm: [" + window("CRON_TZ=Asia/Tokyo 0 8 * * *", 11, "30m") + "]",
		"warm: [" + window("CRON_TZ=Asia/Tokyo 0 8 * * *", 10, "31m") + "]",
	} {
		if reflect.DeepEqual(parse(base), parse(other)) {
			t.Errorf("the same with %s", other)
		}
	}
}

// What changes nothing, or is better said otherwise, is warned about and taken.
func TestWarmWarnings(t *testing.T) {
	list := func(items ...string) string { return "warm: [" + strings.Join(items, ", ") + "]" }
	const always = "so the tokens are always kept: depth says that better, or min with refill: adaptive"
	for _, tc := range []struct {
		name  string
		lines []string
		want  string // "" = none
	}{
		{"above depth", []string{list(window("0 8 * * *", 6, "1h"))}, ""},
		{"not above depth", []string{"warm:", "  - " + window("0 8 * * *", 6, "1h"), "  - " + window("0 9 * * *", 5, "1h")},
			"pools.yaml:11: targets.login.warm[1].tokens: is not above depth (5 of 5), so the window changes nothing"},
		{"not above depth, idle at times", []string{"idle_after: 1h", list(window("0 8 * * *", 5, "1h"))}, ""},
		{"adaptive, above min", []string{"refill: adaptive", "depth: 50", "min: 4", list(window("0 8 * * *", 5, "1h"))}, ""},
		{"adaptive, not above min", []string{"refill: adaptive", "depth: 50", "min: 5", list(window("0 8 * * *", 5, "1h"))},
			"pools.yaml:12: targets.login.warm[0].tokens: is not above min (5 of 5), so the window changes nothing"},
		{"each hour for an hour", []string{list(window("0 * * * *", 9, "1h"))},
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one is over (1h), " + always},
		{"each hour for less", []string{list(window("0 * * * *", 9, "59m59s"))}, ""},
		{"daily for a day", []string{list(window("@daily", 9, "24h"))},
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one is over (24h), " + always},
		{"each day but one, for a day", []string{list(window("0 0 * * 1-6", 9, "24h"))}, ""},
		{"each month but one, for a day", []string{list(window("0 0 * 2-12 *", 9, "24h"))}, ""},
		{"each day by number", []string{list(window("0 0 1-31 * *", 9, "24h"))},
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one is over (24h), " + always},
		{"each day or a Monday", []string{list(window("0 0 1-31 * 1", 9, "24h"))},
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one is over (24h), " + always},
		{"overlapping in the morning", []string{list(window("*/5 8 * * *", 9, "10m"))}, ""},
		{"the longest gap is over midnight", []string{list(window("0 1,13,20 * * *", 9, "11h"))}, ""},
		{"the longest gap is by day", []string{list(window("0 1,13,20 * * *", 9, "12h"))},
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one is over (12h), " + always},
	} {
		var got []string
		for _, line := range strings.Split(warnings(mustParse(t, minimal(tc.lines...), nil)), "\n") {
			if strings.Contains(line, ".warm[") {
				got = append(got, line)
			}
		}
		if strings.Join(got, "\n") != tc.want {
			t.Errorf("%s:\n%q, want\n%q", tc.name, got, tc.want)
		}
	}
	// In the defaults they are for targets of all depths.
	text := "defaults: {warm: [" + window("0 8 * * *", 1, "1h") + "]}\n" + minimal()
	if got := warnings(mustParse(t, text, nil)); strings.Contains(got, "warm") {
		t.Errorf("warned of the defaults: %s", got)
	}
}
