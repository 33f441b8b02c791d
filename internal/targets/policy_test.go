package targets

import (
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
		set := mustParse(t, file(tc.top, tc.defaults), nil)
		if got := set.Targets[0].ProvidersPolicy; got != tc.want {
			t.Errorf("%q %q: %s, want %s", tc.top, tc.defaults, got, tc.want)
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
	for _, tc := range []struct {
		name, policy, providers, want string
	}{
		{"one provider", "best", entry("a", ""), "pools.yaml:5: targets.one.providers_policy: best has no effect, because only one provider can be used: list a second one with a key, or remove the setting"},
		{"one provider has a key", "cheapest", entry("a", "") + "  - {name: b, url: 'https://b.example.com', key: ''}\n", "targets.one.providers_policy: cheapest has no effect"},
		{"no price", "best", entry("a", ", price_per_1000: 1") + entry("b", ""), "pools.yaml:4: providers.b: has no price for turnstile, so the prices of all providers count as equal for the policy best: set price_per_1000"},
		{"a price of another type", "cheapest", entry("a", ", price_per_1000: 1") + entry("b", ", price_per_1000: {hcaptcha: 2}"), "providers.b: has no price for turnstile, so the prices of all providers count as equal for the policy cheapest"},
		{"the price 0", "best", entry("a", ", price_per_1000: 0") + entry("b", ", price_per_1000: 1"), "pools.yaml:3: providers.a: has the price 0 for turnstile"},
		{"the price 0 is the lowest", "cheapest", entry("a", ", price_per_1000: 0") + entry("b", ", price_per_1000: 1"), ""},
		{"ordered compares nothing", "ordered", entry("a", "") + entry("b", ""), ""},
	} {
		target := "{type: turnstile, sitekey: 1x00000000000000000000AA, owner: qa@example.com, pageurl: 'https://example.com/"
		set := mustParse(t, "providers_policy: "+tc.policy+"\nproviders:\n"+tc.providers+"targets:\n  one: "+target+"1'}\n  two: "+target+"2'}\n", nil)
		n := 0
		for _, w := range set.Warnings {
			if strings.Contains(w.String(), "effect, because") || strings.Contains(w.String(), "count as equal") {
				n++
			}
		}
		switch got := warnings(set); {
		case tc.want == "" && n > 0, tc.want != "" && n != 1:
			t.Errorf("%s: %d warnings\n%s", tc.name, n, got)
		case !strings.Contains(got, tc.want):
			t.Errorf("%s: warnings\n%s\nwant %q", tc.name, got, tc.want)
		}
	}
}

// An unknown policy is refused with the words that are allowed.
func TestUnknownProvidersPolicy(t *testing.T) {
	for _, text := range []string{"providers_policy: random\n" + minimal(), minimal("providers_policy: random")} {
		_, err := Parse("pools.yaml", []byte(text), nil)
		if err == nil || !strings.Contains(err.Error(), "providers_policy") || !strings.Contains(err.Error(), "ordered, cheapest or best") {
			t.Errorf("%v", err)
		}
	}
}
