package check

import (
	"strings"
	"testing"

	"poold/internal/targets"
)

// One line describes a target, its cost without requests and its limit. Missing budgets and prices
// are warnings, unless the provider is simulated.
func TestTargetLine(t *testing.T) {
	const (
		head      = "currency: EUR\nproviders: [{name: acme, url: 'https://s.example.com', key: k1, price_per_1000: {turnstile: 1.2}}, {name: other, url: 'https://o.example.com', key: k2, price_per_1000: 1}]\n"
		unpriced  = "providers: [{name: acme, url: 'https://s.example.com', key: k1, price_per_1000: {turnstile: 1.2}}, {name: other, url: 'https://o.example.com', key: k2}]\n"
		simulated = "providers: [{name: own, api: simulated}]\n"
	)
	for _, c := range []struct{ head, keys, want string }{
		{head, "depth: 2, budget: {per_day: 1000}", "note: a: turnstile, fixed, depth 2; idle 691 solves a day for 0.83 EUR; at most 1000 solves a day for 1.20 EUR\n"},
		{head, "depth: 2, budget: {per_hour: 40, per_day: 1000}", "note: a: turnstile, fixed, depth 2; idle 691 solves a day for 0.83 EUR; at most 960 solves a day for 1.15 EUR\n"},
		{head, "depth: 2, budget: {per_hour: 20}", "warning: a: turnstile, fixed, depth 2; idle 691 solves a day for 0.83 EUR; the budget of 480 solves a day for 0.58 EUR is too small for that\n"},
		{head + "budget: {per_day: 800}\n", "depth: 2", "note: a: turnstile, fixed, depth 2; idle 691 solves a day for 0.83 EUR; at most 800 solves a day for 0.96 EUR\n"},
		{head, "depth: 2", "warning: a: turnstile, fixed, depth 2; idle 691 solves a day for 0.83 EUR; no budget limits it\n"},
		{head, "depth: 2, idle_after: 1h, budget: {per_day: 10}", "note: a: turnstile, fixed, depth 2; idle 0 solves a day for 0.00 EUR; at most 10 solves a day for 0.01 EUR\n"},
		{head, "depth: 9, refill: adaptive, min: 1, budget: {per_day: 400}", "note: a: turnstile, adaptive, depth 9; idle 346 solves a day for 0.41 EUR; at most 400 solves a day for 0.48 EUR\n"},
		{head, "depth: 2, paused: true", "note: a: turnstile, fixed, depth 2; nothing is bought: paused in the configuration file\n"},
		{unpriced, "depth: 2, budget: {per_day: 1000}", "warning: a: turnstile, fixed, depth 2; idle 691 solves a day; at most 1000 solves a day; some provider has no price_per_1000 for this type\n"},
		{simulated, "depth: 2", "note: a: turnstile, fixed, depth 2; idle 691 solves a day\n"},
	} {
		set, err := targets.Parse("pools.yaml", []byte("redis: {url: 'redis://h'}\n"+c.head+
			"targets:\n  a: {type: turnstile, sitekey: x, pageurl: 'https://e.com/', owner: q, "+c.keys+"}\n"), targets.References{})
		if err != nil {
			t.Fatal(err)
		}
		if got := targetLine(set, &set.Targets[0]); got != c.want {
			t.Errorf("%s: got\n%swant\n%s", strings.TrimSpace(c.keys), got, c.want)
		}
	}
}
