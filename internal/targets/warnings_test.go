package targets

import (
	"strings"
	"testing"
)

// An unusual file is accepted, and Parse returns the exact warnings.
func TestWarnings(t *testing.T) {
	list := func(items ...string) string { return "warm: [" + strings.Join(items, ", ") + "]" }
	key := func(scope string) string {
		return "server: {keys: [{name: ci, key: 0123456789abcdef, scopes: [" + scope + "]}]}\n"
	}
	usual := withSolve("pages: ['https://*.example.com/*', 'http://staging-*/*', 'http://[::1]/*', 'http://127.0.0.1:*/']")
	const (
		always    = "so the tokens are always kept: use depth instead, or min with refill: adaptive"
		hour      = "budget.per_hour: is above per_day (20 of 10), so an hour can never use it up"
		inherited = "pools.yaml:4: targets.login.depth: is inherited (5): with refill: adaptive it limits the tokens kept and on order, so set it in the target"
		room      = "pools.yaml:4: targets.login: min or warm keep 8 tokens, but depth (9) counts orders too: fewer are ready while some are renewed, so set depth to 10 or more"
		open      = "a wildcard in the last two labels of the host also matches hosts of other owners: name the domain"
		nobody    = "no key of server.keys has the scope solve, so every request is refused: give one of them the scope"
	)
	eight := list(windowText("0 8 * * *", 8, "1h"))
	for _, tc := range []struct {
		name, text string
		about      string // selects the warnings
		want       string // "" = none
	}{
		{"budget of a target", minimal("budget: {per_day: 10, per_hour: 20}"), "budget", "pools.yaml:9: targets.login." + hour},
		{"budget of the defaults, once", "defaults: {budget: {per_hour: 20, per_day: 10}}\n" + minimal(), "budget", "pools.yaml:1: defaults." + hour},
		{"day below the hour of the defaults", "defaults: {budget: {per_hour: 20}}\n" + minimal("budget:", "  per_day: 10"), "budget", "pools.yaml:11: targets.login." + hour},
		{"equal budgets", minimal("budget: {per_hour: 10, per_day: 10}"), "budget", ""},
		{"no cap for the day", minimal("budget: {per_hour: 10, per_day: 0}"), "budget", ""},

		{"adaptive, inherited depth", minimal("refill: adaptive"), "depth", inherited},
		{"adaptive, own depth", minimal("refill: adaptive", "depth: 5"), "depth", ""},
		{"no room beside min", minimal("refill: adaptive", "depth: 9", "min: 8"), "renewed", room},
		{"no room beside a window", minimal("refill: adaptive", "depth: 9", eight), "renewed", room},
		{"room for a part of a quarter", minimal("refill: adaptive", "depth: 11", "min: 9"), "renewed", "pools.yaml:4: targets.login: min or warm keep 9 tokens, but depth (11) counts orders too: fewer are ready while some are renewed, so set depth to 12 or more"},
		{"enough room", minimal("refill: adaptive", "depth: 10", "min: 8", eight), "renewed", ""},
		{"fixed needs no room", minimal("depth: 5", eight), "renewed", ""},
		{"nothing is kept", minimal("refill: adaptive", "depth: 0"), "renewed", ""},

		{"above depth", minimal(list(windowText("0 8 * * *", 6, "1h"))), ".warm[", ""},
		{"not above depth", minimal("warm:", "  - "+windowText("0 8 * * *", 6, "1h"), "  - "+windowText("0 9 * * *", 5, "1h")), ".warm[",
			"pools.yaml:11: targets.login.warm[1].tokens: is not above depth (5 of 5), so the window changes nothing"},
		{"not above depth, idle at times", minimal("idle_after: 1h", list(windowText("0 8 * * *", 5, "1h"))), ".warm[", ""},
		{"adaptive, above min", minimal("refill: adaptive", "depth: 50", "min: 4", list(windowText("0 8 * * *", 5, "1h"))), ".warm[", ""},
		{"adaptive, not above min", minimal("refill: adaptive", "depth: 50", "min: 5", list(windowText("0 8 * * *", 5, "1h"))), ".warm[",
			"pools.yaml:12: targets.login.warm[0].tokens: is not above min (5 of 5), so the window changes nothing"},
		{"each hour for an hour", minimal(list(windowText("0 * * * *", 9, "1h"))), ".warm[",
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one ends, " + always},
		{"each hour for less", minimal(list(windowText("0 * * * *", 9, "59m59s"))), ".warm[", ""},
		{"daily for a day", minimal(list(windowText("@daily", 9, "24h"))), ".warm[",
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one ends, " + always},
		{"each day but one, for a day", minimal(list(windowText("0 0 * * 1-6", 9, "24h"))), ".warm[", ""},
		{"each month but one, for a day", minimal(list(windowText("0 0 * 2-12 *", 9, "24h"))), ".warm[", ""},
		{"overlapping in the morning", minimal(list(windowText("*/5 8 * * *", 9, "10m"))), ".warm[", ""},
		{"the longest gap is over midnight", minimal(list(windowText("0 1,13,20 * * *", 9, "11h"))), ".warm[", ""},
		{"the longest gap is by day", minimal(list(windowText("0 1,13,20 * * *", 9, "12h"))), ".warm[",
			"pools.yaml:9: targets.login.warm[0].for: the next window begins before this one ends, " + always},
		{"defaults are for targets of all depths", "defaults: {warm: [" + windowText("0 8 * * *", 1, "1h") + "]}\n" + minimal(), "warm", ""},

		{"solve without keys", usual, "solve", ""},
		{"a key for solve", key("solve") + usual, "solve", ""},
		{"no key for solve", key("token, admin") + usual, "solve", "pools.yaml:2: solve: " + nobody},
		{"the overall budget", "budget: {per_day: 5}\n" + usual, "solve", ""},
		{"above the overall budget", "budget: {per_day: 4}\n" + usual, "solve",
			"pools.yaml:4: solve.budget.per_day: exceeds the overall budget (5 of 4), which ends all purchases first"},
		{"open hosts", withSolve("pages: ['https://example.*/*', 'https://*.com/*', 'https://a.b-*.com/*']"), "solve",
			"pools.yaml:4: solve.pages[0]: " + open + "\npools.yaml:4: solve.pages[1]: " + open + "\npools.yaml:4: solve.pages[2]: " + open},
		{"an hour of solve", strings.Replace(usual, "per_day: 5", "per_day: 5, per_hour: 6", 1), "solve",
			"pools.yaml:3: solve.budget.per_hour: is above per_day (6 of 5), so an hour can never use it up"},
	} {
		var got []string
		for _, w := range mustParse(t, tc.text, References{}).Warnings {
			if strings.Contains(w.Text, tc.about) {
				got = append(got, w.String())
			}
		}
		if strings.Join(got, "\n") != tc.want {
			t.Errorf("%s:\n%q, want\n%q", tc.name, got, tc.want)
		}
	}
}
