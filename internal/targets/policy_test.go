package targets

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// A target's own policy precedes the policy of the defaults, which precedes the policy of the file.
func TestProvidersPolicyIsInherited(t *testing.T) {
	const target = "{type: turnstile, sitekey: 1x00000000000000000000AA, pageurl: 'https://example.com/%', owner: qa@example.com"
	file := func(top, defaults string) string {
		text := top + "providers: [{name: a, url: 'https://a.example.com', key: k, price_per_1000: 1}, {name: b, url: 'https://b.example.com', key: k, price_per_1000: 2}]\n" +
			defaults + "targets:\n"
		return text + "  inherits: " + strings.Replace(target, "%", "1", 1) + "}\n  own: " + strings.Replace(target, "%", "2", 1) + ", providers_policy: cheapest}\n"
	}
	for _, tc := range []struct {
		top, defaults string
		want          ProvidersPolicy
	}{
		{"", "", ProvidersOrdered},
		{"providers_policy: best\n", "", ProvidersBest},
		{"", "defaults: {providers_policy: best}\n", ProvidersBest},
		{"providers_policy: best\n", "defaults: {providers_policy: ordered}\n", ProvidersOrdered},
		{"providers_policy: best\n", "defaults: {depth: 3}\n", ProvidersBest},
	} {
		set := mustParse(t, file(tc.top, tc.defaults), References{})
		if got := set.Targets[0].ProvidersPolicy; got != tc.want {
			t.Errorf("%q %q: %s, want %s", tc.top, tc.defaults, got, tc.want)
		}
		if top := ProvidersPolicy(strings.TrimSpace(strings.TrimPrefix(tc.top, "providers_policy: "))); set.ProvidersPolicy != cmp.Or(top, ProvidersOrdered) {
			t.Errorf("%q %q: for guests %s", tc.top, tc.defaults, set.ProvidersPolicy)
		}
		if got := set.Targets[1].ProvidersPolicy; got != ProvidersCheapest {
			t.Errorf("%q %q: the target's own policy is %s", tc.top, tc.defaults, got)
		}
		if len(set.Warnings) > 0 && strings.Contains(warnings(set), "polic") {
			t.Errorf("warnings %s", warnings(set))
		}
	}
}

// A policy that has nothing to compare is accepted with one warning for each fact.
func TestPoliciesWithoutComparison(t *testing.T) {
	entry := func(name, price string) string {
		return "  - {name: " + name + ", url: 'https://" + name + ".example.com', key: k" + price + "}\n"
	}
	const (
		noEffect = "providers_policy: has no effect: only one provider can be used; list a second one with a key, or remove the line"
		dear     = ", price_per_1000: 3"
		free     = ", price_per_1000: 0"
		best     = "providers_policy: best\n"
		cheapest = "providers_policy: cheapest\n"
	)
	missing := func(provider, types string) string {
		return "providers." + provider + ".price_per_1000: prices count as equal for " + types + ", because provider " + provider + " has none: set providers." + provider + ".price_per_1000"
	}
	zero := func(provider, types string) string {
		return "providers." + provider + ".price_per_1000: 0 counts as unknown when providers_policy: best compares providers, so prices count as equal for " + types + ": set a price above 0, or use cheapest"
	}
	one, two := entry("a", dear), entry("a", dear)+entry("b", dear)
	for _, tc := range []struct {
		name, top, providers string
		own                  [2]string // policies of the targets z (turnstile) and c (hcaptcha), in the order of the file
		want                 []string
	}{
		{"one provider", best, one, [2]string{}, []string{"pools.yaml:1: " + noEffect}},
		{"one provider, two policies", best, one, [2]string{"cheapest", "ordered"}, []string{"pools.yaml:1: " + noEffect}},
		{"one provider, for guests only", best, one, [2]string{"ordered", "ordered"}, []string{"pools.yaml:1: " + noEffect}},
		{"one provider, in the defaults", "defaults: {depth: 1,\n  providers_policy: cheapest}\n", one, [2]string{}, []string{"pools.yaml:2: defaults." + noEffect}},
		{"one provider, in the first target", "", one, [2]string{"best", "best"}, []string{"pools.yaml:5: targets.z." + noEffect}},
		{"one provider, in the second target", "", one, [2]string{"ordered", "best"}, []string{"pools.yaml:7: targets.c." + noEffect}},
		{"one provider has a key", cheapest, one + "  - {name: b, url: 'https://b.example.com', key: ''}\n", [2]string{}, []string{"pools.yaml:1: " + noEffect}},
		{"the simulated provider", best, "  - {name: s, api: simulated}\n", [2]string{}, []string{"pools.yaml:1: " + noEffect}},
		{"ordered needs no second provider", "providers_policy: ordered\n", one, [2]string{}, nil},

		{"two prices", best, two, [2]string{"cheapest", ""}, nil},
		{"no price", best, entry("a", dear) + entry("b", ""), [2]string{}, []string{"pools.yaml:4: " + missing("b", "hcaptcha, turnstile")}},
		{"no price for cheapest", cheapest, entry("a", "") + entry("b", dear), [2]string{"", "best"}, []string{"pools.yaml:3: " + missing("a", "hcaptcha, turnstile")}},
		{"no prices", cheapest, entry("a", "") + entry("b", ""), [2]string{"", "ordered"}, []string{"pools.yaml:3: " + missing("a", "turnstile"), "pools.yaml:4: " + missing("b", "turnstile")}},
		{"a price of another type", best, entry("a", dear) + entry("b", ", price_per_1000: {turnstile: 2, geetest: 1}"), [2]string{}, []string{"pools.yaml:4: " + missing("b", "hcaptcha")}},
		{"a type without comparison", best, entry("a", dear) + entry("b", ", price_per_1000: {turnstile: 2}"), [2]string{"", "ordered"}, nil},
		{"the price 0", best, entry("a", free) + entry("b", dear), [2]string{}, []string{"pools.yaml:3: " + zero("a", "hcaptcha, turnstile")}},
		{"the price 0 is the lowest", cheapest, entry("a", free) + entry("b", dear), [2]string{}, nil},
		{"the price 0, one target with best", cheapest, entry("a", free) + entry("b", dear), [2]string{"best", ""}, []string{"pools.yaml:3: " + zero("a", "turnstile")}},
		{"no price and the price 0", best, entry("a", dear) + entry("b", ", price_per_1000: {turnstile: 0}"), [2]string{}, []string{"pools.yaml:4: " + missing("b", "hcaptcha"), "pools.yaml:4: " + zero("b", "turnstile")}},
		{"ordered compares nothing", "", entry("a", "") + entry("b", free), [2]string{}, nil},
	} {
		targets := ""
		for i, target := range []string{"z: {type: turnstile", "c: {type: hcaptcha"} {
			if tc.own[i] != "" {
				target += ",\n    providers_policy: " + tc.own[i]
			}
			targets += "  " + target + ", sitekey: x, owner: qa@example.com, pageurl: 'https://example.com/'}\n"
		}
		var got []string
		for _, w := range mustParse(t, tc.top+"providers:\n"+tc.providers+"targets:\n"+targets, References{}).Warnings {
			if strings.Contains(w.Text, "has no effect") || strings.Contains(w.Text, "count as equal") {
				got = append(got, w.String())
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", tc.name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
		}
	}
}

// An unknown policy is refused with the words that are allowed.
func TestUnknownProvidersPolicy(t *testing.T) {
	for text, want := range map[string]string{
		"providers_policy: random\n" + minimal():            `pools.yaml:1: providers_policy: must be ordered, cheapest or best, not "random"`,
		"defaults: {providers_policy: cheap}\n" + minimal(): `pools.yaml:1: defaults.providers_policy: must be ordered, cheapest or best, not "cheap"`,
		minimal("providers_policy: bestt"):                  `pools.yaml:9: targets.login.providers_policy: must be ordered, cheapest or best, not "bestt"; did you mean best?`,
		"providers_policy:\n" + minimal():                   `pools.yaml:1: providers_policy: must be ordered, cheapest or best`,
		"solve: {providers_policy: best}\n" + minimal():     "pools.yaml:1: solve.providers_policy: unknown key",
	} {
		_, err := Parse("pools.yaml", []byte(text), References{})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}
