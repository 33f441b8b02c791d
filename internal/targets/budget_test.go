package targets

import (
	"strings"
	"testing"

	"poold/internal/captcha"
)

// A target inherits the missing keys of its budget from the defaults. The value 0 removes the limit
// of the defaults.
func TestTargetBudgetOverridesTheDefaultsKeyByKey(t *testing.T) {
	const defaults = "defaults: {budget: {per_hour: 10, per_day: 100}}\n"
	for _, tc := range []struct {
		name, text string
		want       Budget
	}{
		{"none", minimal(), Budget{}},
		{"own", minimal("budget: {per_hour: 1, per_day: 1000000}"), Budget{1, 1000000}},
		{"own hour alone", minimal("budget: {per_hour: 1}"), Budget{1, 0}},
		{"defaults", defaults + minimal(), Budget{10, 100}},
		{"hour over defaults", defaults + minimal("budget: {per_hour: 20}"), Budget{20, 100}},
		{"day over defaults", defaults + minimal("budget: {per_day: 50}"), Budget{10, 50}},
		{"cap lifted", defaults + minimal("budget: {per_day: 0}"), Budget{10, 0}},
		{"nothing said", defaults + minimal("budget: {}"), Budget{10, 100}},
		{"empty", defaults + minimal("budget:"), Budget{10, 100}},
		{"not that over all targets", "budget: {per_day: 7}\n" + minimal(), Budget{}},
	} {
		set := mustParse(t, tc.text, References{})
		if got := set.Targets[0].Budget; got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		if strings.Contains(warnings(set), "budget") {
			t.Errorf("%s: warnings\n%s", tc.name, warnings(set))
		}
	}
}

// A price is known, free or unknown for each type, also for unpoolable types.
func TestPricesAreKnownFreeOrUnknown(t *testing.T) {
	each := func(per1000 float64) Prices {
		p := Costs(per1000)
		return Prices{p, p, p, p, p, p, p}
	}
	for _, tc := range []struct {
		keys string
		want Prices
	}{
		{"concurrency: 1", Prices{}},
		{"price_per_1000: 0", each(0)},
		{"price_per_1000: 2.99", each(2.99)},
		{"price_per_1000: 1000000", each(1000000)},
		{"price_per_1000: '${PRICE:-1.5}'", each(1.5)},
		{"price_per_1000: {}", Prices{}},
		{"price_per_1000: {turnstile: 1.2, recaptcha_v2: 2.9}", Prices{RecaptchaV2: Costs(2.9), Turnstile: Costs(1.2)}},
		{"price_per_1000: {recaptcha_v3: 0, hcaptcha: '${PRICE:-4}'}", Prices{RecaptchaV3: Costs(0), HCaptcha: Costs(4)}},
		{"price_per_1000: {image: 0.5, geetest: 3, geetest_v4: 0}", Prices{Image: Costs(0.5), GeeTest: Costs(3), GeeTestV4: Costs(0)}},
	} {
		if got := mustParse(t, withProviderKeys(tc.keys), References{}).Providers[0].Price; got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.keys, got, tc.want)
		}
	}
	prices := Prices{Costs(1), Costs(2), Costs(3), Costs(4), Costs(5), Costs(6), Costs(7)}
	for i, kind := range captcha.SolvableTypes() {
		if got, want := prices.For(kind), float64(i+1)/1000; got != want || !prices.Known(kind) || (Prices{}).Known(kind) || (Prices{}).For(kind) != 0 {
			t.Errorf("%s: %v, want %v, which is known", kind, got, want)
		}
	}
	if prices.For("audio") != 0 || prices.Known("audio") {
		t.Error("an unknown type has a price")
	}
}
