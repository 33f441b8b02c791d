package targets

import (
	"math"
	"strings"
	"testing"

	"poold/internal/captcha"
)

// Each key of a budget is the target's own, else that of the defaults; 0 is a
// value and lifts the cap of the defaults.
func TestBudgetPrecedence(t *testing.T) {
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
		set := mustParse(t, tc.text, nil)
		if got := set.Targets[0].Budget; got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
		if strings.Contains(warnings(set), "budget") {
			t.Errorf("%s: warnings\n%s", tc.name, warnings(set))
		}
	}
}

// What one target says of its budget is not seen by its neighbours.
func TestBudgetStaysWithItsTarget(t *testing.T) {
	text := "defaults: {budget: {per_hour: 10}}\n" + minimal("budget: {per_hour: 3, per_day: 9}") + `  second:
    type: turnstile
    sitekey: 1x00000000000000000000AA
    pageurl: https://staging.example.com/second
    owner: qa@example.com
`
	set := mustParse(t, text, nil)
	if a, b := set.Targets[0].Budget, set.Targets[1].Budget; a != (Budget{3, 9}) || b != (Budget{10, 0}) {
		t.Errorf("budgets %+v and %+v", a, b)
	}
}

func TestBudgetThatCannotBeUsedUp(t *testing.T) {
	const rule = "budget.per_hour: is above per_day (20 of 10), so an hour can never use it up"
	for _, tc := range []struct{ name, text, want string }{
		{"target", minimal("budget: {per_day: 10, per_hour: 20}"), "pools.yaml:9: targets.login." + rule},
		{"defaults, once", "defaults: {budget: {per_hour: 20, per_day: 10}}\n" + minimal(), "pools.yaml:1: defaults." + rule},
		{"day under the hour of the defaults", "defaults: {budget: {per_hour: 20}}\n" + minimal("budget:", "  per_day: 10"), "pools.yaml:11: targets.login." + rule},
		{"equal", minimal("budget: {per_hour: 10, per_day: 10}"), ""},
		{"no cap for the day", minimal("budget: {per_hour: 10, per_day: 0}"), ""},
	} {
		var got []string
		for _, w := range mustParse(t, tc.text, nil).Warnings {
			if strings.Contains(w.Text, "budget") {
				got = append(got, w.String())
			}
		}
		if strings.Join(got, "\n") != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// The file names the price of a thousand solves, and everybody else asks for one.
func TestPrices(t *testing.T) {
	each := func(price float64) Prices { return Prices{price, price, price, price} }
	for _, tc := range []struct {
		keys string
		want Prices
	}{
		{"price_per_1000: 0", Prices{}},
		{"price_per_1000: 2.99", each(2.99)},
		{"price_per_1000: 1000000", each(1000000)},
		{"price_per_1000: '${PRICE:-1.5}'", each(1.5)},
		{"price_per_1000: {}", Prices{}},
		{"price_per_1000: {turnstile: 1.2, recaptcha_v2: 2.9}", Prices{RecaptchaV2: 2.9, Turnstile: 1.2}},
		{"price_per_1000: {recaptcha_v3: 1, hcaptcha: '${PRICE:-4}'}", Prices{RecaptchaV3: 1, HCaptcha: 4}},
	} {
		if got := mustParse(t, provided(tc.keys), nil).Providers[0].Price; got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.keys, got, tc.want)
		}
	}
	prices := Prices{RecaptchaV2: 1, RecaptchaV3: 2, HCaptcha: 3, Turnstile: 4}
	sum := 0.0
	for _, kind := range captcha.Types() {
		sum += prices.For(kind)
	}
	if got := prices.For(captcha.Turnstile); got != 0.004 || math.Abs(sum-0.010) > 1e-12 || prices.For("image") != 0 {
		t.Errorf("one turnstile %v, one of each %v, an image %v", got, sum, prices.For("image"))
	}
}

// Providers are keys of maps; a price that is another number makes another one.
func TestComparable(t *testing.T) {
	parse := func(keys string) Provider { return mustParse(t, provided(keys), nil).Providers[0] }
	clients := map[Provider]bool{parse("price_per_1000: {turnstile: 1.2}"): true}
	if !clients[parse("price_per_1000: {turnstile: 1.20}")] || clients[parse("price_per_1000: {turnstile: 1.3}")] {
		t.Error("providers are not told apart by what they say")
	}
}
