package targets

import (
	"cmp"
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
