package reload

import (
	"fmt"
	"strings"
	"testing"

	"poold/internal/targets"
	"poold/internal/testkit"
)

// The log line of a reload contains only the names of the changed targets and sections.
func TestReloadLogsItsChanges(t *testing.T) {
	const target = "  %s: {type: turnstile, sitekey: x, pageurl: 'https://example.com/%s', owner: qa@example.com, " +
		"depth: %d}\n"
	file := func(head string, names ...string) *targets.Set {
		var text strings.Builder
		text.WriteString(head + "targets:\n")
		for _, name := range names {
			depth := 1
			if bare, deep := strings.CutSuffix(name, "+"); deep {
				name, depth = bare, 2
			}
			fmt.Fprintf(&text, target, name, name, depth)
		}
		set, err := targets.Parse("pools.yaml", []byte(text.String()), targets.References{})
		testkit.NoError(t, err)
		return set
	}
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf("t%02d", i)
	}
	real := func(price string) string {
		return "providers: [{name: acme, url: 'https://s.example.com', key: canary1, price_per_1000: " + price + "}]\n"
	}
	two := func(first, second string) string {
		const entry = "{name: %s, url: 'https://s.example.com', key: canary1}"
		return fmt.Sprintf("providers: ["+entry+", "+entry+"]\n", first, second)
	}
	for _, c := range []struct {
		old, set *targets.Set
		want     string
	}{
		{file("", "a"), file("# a comment\n", "a"), ""},
		{file("", "a", "b", "c"), file("", "a", "b+", "d"),
			"targets added d; targets changed b (depth 1 → 2); targets removed c"},
		{file(real("1"), "a"), file(real("2"), "a"), "other settings changed: providers.acme (price_per_1000)"},
		{file(real("1"), "a"), file(strings.Replace(real("1"), "canary1", "canary2", 1), "a"),
			"other settings changed: providers.acme.key ([redacted] → [redacted])"},
		{file(two("acme", "beta"), "a"), file(two("beta", "acme"), "a"),
			"other settings changed: the order of the providers"},
		{file(real("1"), "a"), file("# moved\n"+real("1"), "a"), ""},
		{file("", "a"), file("budget: {per_day: 5, money_per_day: 2}\nserver: {callback_secrets: [canary-canary-canary]}\n",
			"a"),
			"other settings changed: budget.money_per_day (0 → 2), budget.per_day (0 → 5), server.callback_secrets"},
		{file("", "a"), file("providers_policy: best\n", "a"),
			"targets changed a (providers_policy ordered → best); other settings changed: providers_policy (ordered → best)"},
		{file("", "a"), file("defaults: {providers_policy: best}\n", "a"),
			"targets changed a (providers_policy ordered → best)"},
		{file("providers_policy: cheapest\n", "a"),
			file("providers_policy: cheapest\ndefaults: {providers_policy: cheapest}\n", "a"), ""},
		{file("defaults: {providers_policy: best}\n", "a"),
			file("providers_policy: cheapest\ndefaults: {providers_policy: best}\n", "a"),
			"other settings changed: providers_policy (ordered → cheapest)"},
		{file("", "a"), file("server: {keys: [{name: a, key: canary-canary-canary, scopes: [token]}]}\n"+
			"solve: {owner: a, pages: ['https://example.com/*'], budget: {per_day: 5}}\n", "a"),
			"other settings changed: server.keys.a, solve"},
		{file("server: {keys: [{name: ci, key: canary-canary-canary, scopes: [token], budget: {money_per_day: 1}}]}\n"+
			"owners: {qa@example.com: {budget: {money_per_day: 3}}}\n", "a"),
			file("server: {keys: [{name: ci, key: canary-canary-canary, scopes: [token], budget: {money_per_day: 2}}]}\n"+
				"owners: {qa@example.com: {budget: {money_per_day: 4}}}\n", "a"),
			"other settings changed: owners.qa@example.com.budget.money_per_day (3 → 4), " +
				"server.keys.ci (budget.money_per_day 1 → 2)"},
		{file("", "a"), file("", many...), "targets added " + strings.Join(many[:20], ", ") +
			", and 10 more; targets removed a"},
	} {
		testkit.Equal(t, "changes", changesBetween(c.old, c.set), c.want)
	}
	var before, now targets.Target
	now.Budget.PerHour, now.Sitekey, now.Proxy = 40, "x", "user:canary@example.com:80"
	testkit.Equal(t, "fields", fieldsChanged(before, now), " (budget.per_hour 0 → 40, proxy  → [redacted], sitekey  → x)")
	now = targets.Target{Withheld: true}
	testkit.Equal(t, "no field of the file", fieldsChanged(before, now), "")
}
