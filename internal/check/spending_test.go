package check

import (
	"fmt"
	"strings"
	"testing"

	"poold/internal/targets"
)

// The most that a file can buy, and the threads and prices that it lacks.
func TestSpending(t *testing.T) {
	const provider = "providers: [{name: acme, profile: 2captcha, url: 'https://s.example.com', key: k1, concurrency: 100%s, price_per_1000: {turnstile: 1.2, recaptcha_v2: 3, recaptcha_v3: 0, hcaptcha: 0, geetest: 0, geetest_v4: 0}}]\n"
	const redis = "redis: {url: 'redis://h'}\ndefaults: {owner: q}\n"
	head := redis + fmt.Sprintf(provider, "")
	target := func(name, rest string) string {
		return "  " + name + ": {type: turnstile, sitekey: " + name + ", pageurl: 'https://e.com/'" + rest + "}\n"
	}
	const rateless = "a: at most 18,000 solves an hour, about $22"
	for name, c := range map[string]struct{ file, want string }{
		"a rate of 20/s": {head + "targets:\n" + target("a", ", depth: 5000, rate: 20/s"), "a: at most 72,000 solves an hour, about $86 (warning: no budget stands against it)\nin all: at most 72,000 solves an hour, about $86\nwarning: a: 5000 tokens cannot be kept: with the usual 10s a solve that takes about 200 threads, and there are 100, enough for about 2,500\n"},
		"callers wait":   {head + "targets:\n" + target("a", ", depth: 5"), rateless + " (warning: no budget stands against it)\nin all: at most 18,000 solves an hour, about $22\n"},
		"a window":       {head + "targets:\n" + target("a", ", depth: 5, warm: [{cron: '@daily', tokens: 15, for: 1h}]"), "a: at most 25,200 solves"},
		"a day's budget": {head + "targets:\n" + target("a", ", budget: {per_day: 500}"), "a: at most 500 solves an hour, about $0.60; 500 a day, about $0.60\nin all: at most 500 solves an hour"},
		"an hour's":      {head + "targets:\n" + target("a", ", budget: {per_hour: 500, per_day: 2000}"), "a: at most 500 solves an hour, about $0.60; 2,000 a day, about $2.40\n"},
		"overall":        {head + "budget: {per_day: 100}\ntargets:\n" + target("a", "") + target("b", ""), rateless + "\nb: at most 18,000 solves an hour, about $22\nin all: at most 100 solves an hour, about $0.12; 100 a day, about $0.12\n"},
		"threads":        {head + "targets:\n" + target("a", ", depth: 5000") + target("b", ", depth: 2000"), "in all: at most 72,000 solves an hour"},
		"together":       {head + "targets:\n" + target("a", ", depth: 1500") + target("b", ", depth: 1500"), "warning: in all, what the targets keep takes about 120 threads with the usual lead times, and there are 100\n"},
		"adaptive":       {head + "targets:\n" + target("a", ", depth: 5000, refill: adaptive"), "in all: at most 72,000 solves an hour, about $86\n"},
		"paused":         {head + "targets:\n" + target("a", ", depth: 5000, paused: true"), "a: nothing is bought\nin all: nothing is bought\n"},
		"no price": {strings.Replace(head, "turnstile: 1.2, ", "", 1) + "targets:\n" + target("a", ", depth: 5"),
			"a: at most 18,000 solves an hour (warning: no budget stands against it)\nin all: at most 18,000 solves an hour\nwarning: providers.acme.price_per_1000: no price for turnstile, so what these solves cost is unknown; write 0 for what is free\n"},
		"a free type": {strings.Replace(head, "turnstile: 1.2", "turnstile: 0", 1) + "targets:\n" + target("a", ", budget: {per_day: 500}"),
			"a: at most 500 solves an hour, free; 500 a day, free\nin all: at most 500 solves an hour, free; 500 a day, free\n"},
		"no price of pictures": {strings.Replace(head, ", geetest: 0", "", 1) + "solve: {pages: ['https://e.com/*'], images: true, budget: {per_hour: 100}}\ntargets:\n" + target("a", ", budget: {per_day: 5}"),
			"no price for geetest, image, so what"},
		"solves on demand": {head + "solve: {pages: ['https://e.com/*'], budget: {per_hour: 100}}\ntargets:\n" + target("a", ", budget: {per_day: 5}"),
			"/solve: at most 100 solves an hour, about $0.30\na: at most 5 solves an hour, about $0.01; 5 a day, about $0.01\nin all: at most 105 solves an hour, about $0.31; 2,405 a day"},
		"callbacks": {redis + strings.Replace(fmt.Sprintf(provider, ", callback_url: 'https://p.example.com'"), "2captcha", "captchaai", 1) + "targets:\n" + target("a", ", depth: 5"), rateless},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := targets.Parse("pools.yaml", []byte(c.file), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := SpendingOf(set).text(false); !strings.HasPrefix(got, c.want) && !strings.HasSuffix(got, c.want) && !strings.Contains(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if name == "adaptive" && len(SpendingOf(set).Shortfalls) > 0 {
				t.Error("the depth of an adaptive target is not kept")
			}
		})
	}
	for n, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.6: "1,234,568"} {
		if got := thousands(n); got != want {
			t.Errorf("%v: %s", n, got)
		}
	}

	// Of many targets check prints the most expensive ones.
	var many strings.Builder
	for i := range 60 {
		many.WriteString(target(fmt.Sprintf("t%02d", i), fmt.Sprintf(", depth: %d", 1000+i)))
	}
	set, err := targets.Parse("pools.yaml", []byte(head+"targets:\n"+many.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	text := SpendingOf(set).text(false)
	if strings.Count(text, "\n") != 53 || !strings.Contains(text, "and 10 more\n") || strings.Contains(SpendingOf(set).text(true), "no budget") {
		t.Errorf("60 targets:\n%s", text)
	}
}
