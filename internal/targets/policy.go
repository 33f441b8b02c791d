package targets

import (
	"fmt"
	"slices"
	"strings"

	"poold/internal/captcha"
)

// ProvidersPolicy says how poold chooses the provider of an order.
type ProvidersPolicy string

// The values of `providers_policy`.
const (
	ProvidersOrdered  ProvidersPolicy = "ordered"  // the first provider in the file that is up
	ProvidersCheapest ProvidersPolicy = "cheapest" // the provider with the lowest price among those that are up
	ProvidersBest     ProvidersPolicy = "best"     // the provider with the lowest expected cost per accepted token
)

// compares reports whether the policy compares the providers that are up.
func (p ProvidersPolicy) compares() bool { return p == ProvidersCheapest || p == ProvidersBest }

// warnOfPolicies warns about policies that have nothing to compare. The argument e is the entry of the
// whole file. Targets must be complete.
func (r *reader) warnOfPolicies(e entry, set *Set, defaults *targetEntry) {
	if len(set.Providers) > 1 {
		r.warnOfPrices(set)
		return
	}
	const text = "has no effect: only one provider can be used; list a second one with a key, or remove the line"
	// The first line with such a policy gets the only warning.
	switch own := "providers_policy"; {
	case set.ProvidersPolicy.compares():
		e.firstEntry(own).warn(text)
	case defaults.ProvidersPolicy.compares():
		defaults.firstEntry(own).warn(text)
	default:
		comparing := make(map[string]bool)
		for _, t := range set.Targets {
			comparing["targets."+t.Name] = t.ProvidersPolicy.compares()
		}
		for _, item := range e.firstEntry("targets").items {
			if comparing[item.path] {
				item.firstEntry(own).warn(text)
				return
			}
		}
	}
}

// warnOfPrices warns about prices that the policies of targets cannot compare. Each provider gets at
// most one warning about missing prices, and one about prices of 0.
func (r *reader) warnOfPrices(set *Set) {
	policies := make(map[captcha.Type][]ProvidersPolicy)
	for _, t := range set.Targets {
		policies[t.Identity.Type] = append(policies[t.Identity.Type], t.ProvidersPolicy)
	}
	for _, p := range set.Providers {
		var missing, zero []string
		for _, t := range captcha.Types() {
			switch {
			case !slices.ContainsFunc(policies[t], ProvidersPolicy.compares):
			case !p.Price.Known(t):
				missing = append(missing, string(t))
			case p.Price.For(t) == 0 && slices.Contains(policies[t], ProvidersBest):
				zero = append(zero, string(t))
			}
		}
		key := fmt.Sprintf("providers.%s.price_per_1000", p.Name)
		if len(missing) > 0 {
			r.warn(p.Line, "%s: prices count as equal for %s, because provider %s has none: set %s", key, strings.Join(missing, ", "), p.Name, key)
		}
		if len(zero) > 0 {
			r.warn(p.Line, "%s: 0 counts as unknown when providers_policy: best compares providers, so prices count as equal for %s: "+
				"set a price above 0, or use cheapest", key, strings.Join(zero, ", "))
		}
	}
}
