package check

import (
	"fmt"
	"strings"
	"testing"

	"poold/internal/targets"
)

// SpendingOf returns the most that a file can buy, and reports missing threads and prices.
func TestSpendingIsTheMostThatAFileCanBuy(t *testing.T) {
	const provider = "providers: [{name: acme, profile: 2captcha, url: 'https://s.example.com', key: k1, concurrency: 100%s, price_per_1000: {turnstile: 1.2, recaptcha_v2: 3, recaptcha_v3: 0, hcaptcha: 0, geetest: 0, geetest_v4: 0}}]\n"
	const redis = "redis: {url: 'redis://h'}\ndefaults: {owner: q}\n"
	head := redis + fmt.Sprintf(provider, "")
	target := func(name, rest string) string {
		return "  " + name + ": {type: turnstile, sitekey: " + name + ", pageurl: 'https://e.com/'" + rest + "}\n"
	}
	const rateless = "a: at most 18,000 solves an hour, about 22"
	for name, c := range map[string]struct{ file, want string }{
		"a rate of 20/s": {head + "targets:\n" + target("a", ", depth: 5000, rate: 20/s"), "a: at most 72,000 solves an hour, about 86; no budget limits it\nnote: in all: at most 72,000 solves an hour, about 86\nwarning: a: 5000 tokens cannot be kept: at the usual 10s a solve they need about 200 threads; the 100 that there are keep about 2,500\n"},
		"callers wait":   {head + "targets:\n" + target("a", ", depth: 5"), rateless + "; no budget limits it\nnote: in all: at most 18,000 solves an hour, about 22\n"},
		"a window":       {head + "targets:\n" + target("a", ", depth: 5, warm: [{cron: '@daily', tokens: 15, for: 1h}]"), "a: at most 25,200 solves"},
		"a day's budget": {head + "targets:\n" + target("a", ", budget: {per_day: 500}"), "a: at most 500 solves an hour, about 0.60; 500 a day, about 0.60\nnote: in all: at most 500 solves an hour"},
		"an hour's":      {head + "targets:\n" + target("a", ", budget: {per_hour: 500, per_day: 2000}"), "a: at most 500 solves an hour, about 0.60; 2,000 a day, about 2.40\nnote: in all: at most 500 solves an hour, about 0.60; 2,000 a day, about 2.40\n"},
		"overall":        {head + "budget: {per_day: 100}\ntargets:\n" + target("a", "") + target("b", ""), rateless + "\nnote: b: at most 18,000 solves an hour, about 22\nnote: in all: at most 100 solves an hour, about 0.12; 100 a day, about 0.12\n"},
		"threads":        {head + "targets:\n" + target("a", ", depth: 5000") + target("b", ", depth: 2000"), "in all: at most 72,000 solves an hour"},
		"together":       {head + "targets:\n" + target("a", ", depth: 1500") + target("b", ", depth: 1500"), "warning: in all, the targets need about 120 threads at the usual lead times, and there are 100\n"},
		"adaptive":       {head + "targets:\n" + target("a", ", depth: 5000, refill: adaptive"), "in all: at most 72,000 solves an hour, about 86\n"},
		"a code":         {"currency: EUR\n" + head + "targets:\n" + target("a", ", depth: 5000, refill: adaptive"), "note: in all: at most 72,000 solves an hour, about 86 EUR\n"},
		"a sign":         {"currency: $\n" + head + "targets:\n" + target("a", ", budget: {per_day: 500}"), "a: at most 500 solves an hour, about $0.60; 500 a day, about $0.60\n"},
		"paused":         {head + "targets:\n" + target("a", ", depth: 5000, paused: true"), "a: nothing is bought: paused in the configuration file\nnote: in all: nothing is bought\n"},
		"no price": {strings.Replace(head, "turnstile: 1.2, ", "", 1) + "targets:\n" + target("a", ", depth: 5"),
			"warning: a: at most 18,000 solves an hour; no budget limits it\nnote: in all: at most 18,000 solves an hour\nwarning: providers.acme.price_per_1000: no price for turnstile, so what these solves cost is unknown; write 0 for what is free\n"},
		"a free type": {strings.Replace(head, "turnstile: 1.2", "turnstile: 0", 1) + "targets:\n" + target("a", ", budget: {per_day: 500}"),
			"a: at most 500 solves an hour, free; 500 a day, free\nnote: in all: at most 500 solves an hour, free; 500 a day, free\n"},
		"no price of pictures": {strings.Replace(head, ", geetest: 0", "", 1) + "solve: {pages: ['https://e.com/*'], images: true, budget: {per_hour: 100}}\ntargets:\n" + target("a", ", budget: {per_day: 5}"),
			"no price for geetest, image, so what"},
		"solves on demand": {head + "solve: {pages: ['https://e.com/*'], budget: {per_hour: 100}}\ntargets:\n" + target("a", ", budget: {per_day: 5}"),
			"/solve: at most 100 solves an hour, about 0.30\nnote: a: at most 5 solves an hour, about 0.01; 5 a day, about 0.01\nnote: in all: at most 105 solves an hour, about 0.31; 2,405 a day"},
		"a budget that the stock uses up": {head + "targets:\n" + target("a", ", depth: 2, budget: {per_hour: 20, per_day: 30}"),
			"\nwarning: a: without any caller, to keep 2 ready takes about 29 solves an hour, so per_hour 20 lasts 42 min of each hour; add idle_after, raise the budget, or lower depth or min\n"},
		"a budget of a day": {head + "targets:\n" + target("a", ", depth: 2, budget: {per_day: 500}"),
			"\nwarning: a: without any caller, to keep 2 ready takes about 29 solves an hour, so per_day 500 lasts 17.4 h of each day; add idle_after, raise the budget, or lower depth or min\n"},
		"the overall budget": {head + "budget: {per_day: 30}\ntargets:\n" + target("a", ", depth: 2") + target("b", ", depth: 2"),
			"\nwarning: in all, without any caller, to keep the tokens ready takes about 58 solves an hour, so per_day 30 lasts 0.5 h of each day\n"},
		"callbacks": {redis + strings.Replace(fmt.Sprintf(provider, ", callback_url: 'https://p.example.com'"), "2captcha", "captchaai", 1) + "targets:\n" + target("a", ", depth: 5"), rateless},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := targets.Parse("pools.yaml", []byte(c.file), targets.References{})
			if err != nil {
				t.Fatal(err)
			}
			full := SpendingOf(set).text(false)
			got := strings.Replace(full, "; this assumes that all threads are always busy, each solve is as short as the first poll allows, and callers and expired tokens use up all that is bought\n", "\n", 1)
			if (got == full) != (name == "paused") {
				t.Errorf("the sum does not say what it assumes:\n%s", full)
			}
			if !strings.HasPrefix(got, c.want) && !strings.HasSuffix(got, c.want) && !strings.Contains(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if name == "adaptive" && len(SpendingOf(set).Shortfalls) > 0 {
				t.Error("the depth of an adaptive target is not kept")
			}
		})
	}
	text := func(file string) string {
		t.Helper()
		set, err := targets.Parse("pools.yaml", []byte(file), targets.References{})
		if err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
		return SpendingOf(set).text(false)
	}
	// Both files of a pair have the same maximum.
	paced := func(first, second string) string {
		const other = "{name: %s, profile: 2captcha, url: 'https://s.example.com', key: k1, concurrency: 50, price_per_1000: 1%s}"
		return redis + "providers: [" + fmt.Sprintf(other, "one", first) + ", " + fmt.Sprintf(other, "two", second) + "]\n"
	}
	const callback = ", first_poll: 2s, callback_url: 'https://p.example.com'"
	deep := "targets:\n" + target("a", ", depth: 5000")
	for name, pair := range map[string][2]string{
		"a window below the depth":                {head + "targets:\n" + target("a", ", depth: 15, warm: [{cron: '@daily', tokens: 5, for: 1h}]"), head + "targets:\n" + target("a", ", depth: 15")},
		"the pace of the second provider":         {paced("", ", poll_interval: 60s") + deep, paced("", "") + deep},
		"callbacks are no slower than first_poll": {paced(callback, callback) + deep, paced(", first_poll: 2s", ", first_poll: 2s") + deep},
	} {
		if got, want := text(pair[0]), text(pair[1]); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	// Nothing is bought for a paused target. So its depth needs no threads, and the sum needs no
	// price for it.
	unpriced := strings.Replace(target("b", ", depth: 5000, paused: true"), "turnstile", "recaptcha_v2", 1)
	got := text(strings.Replace(head, "recaptcha_v2: 3, ", "", 1) + "targets:\n" + target("a", ", budget: {per_day: 500}") + unpriced)
	if strings.Contains(got, "cannot be kept") || !strings.Contains(got, "\nnote: in all: at most 500 solves an hour, about 0.60; ") {
		t.Errorf("a paused target counts:\n%s", got)
	}

	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.6: "1,234,568"} {
		if got := thousands(n); got != want {
			t.Errorf("%v: %s", n, got)
		}
	}

	// The command prints at most 50 targets, the most expensive first.
	var many strings.Builder
	for i := range 60 {
		many.WriteString(target(fmt.Sprintf("t%02d", i), fmt.Sprintf(", depth: %d", 1000+i)))
	}
	set, err := targets.Parse("pools.yaml", []byte(head+"targets:\n"+many.String()), targets.References{})
	if err != nil {
		t.Fatal(err)
	}
	shown := SpendingOf(set).text(false)
	if strings.Count(shown, "\n") != 53 || !strings.Contains(shown, "note: and 10 more\n") || strings.Contains(SpendingOf(set).text(true), "no budget") {
		t.Errorf("60 targets:\n%s", shown)
	}
}
