package status

import (
	"encoding/json"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/targets"
)

func TestMoneyInJSON(t *testing.T) {
	for m, want := range map[Money]string{0: "0", 0.25: "0.25", UnknownMoney(): "null", 1e21: "1000000000000000000000"} {
		text, err := json.Marshal(m)
		if err != nil || string(text) != want {
			t.Errorf("%v is %s, %v", m, text, err)
		}
		var again Money
		if err := json.Unmarshal(text, &again); err != nil || again != m || again.Known() != (want != "null") {
			t.Errorf("%s is read as %v, %v", text, again, err)
		}
	}
	for _, c := range []struct{ a, b, want Money }{
		{0.1, 0.2, 0.3}, {0, UnknownMoney(), UnknownMoney()}, {UnknownMoney(), 0, UnknownMoney()}, {UnknownMoney(), 0.5, 0.5}, {0.5, UnknownMoney(), 0.5},
		{UnknownMoney(), UnknownMoney(), UnknownMoney()},
	} {
		if got := c.a.plus(c.b); got != c.want {
			t.Errorf("%v and %v are %v", c.a, c.b, got)
		}
	}
}

// The amount spent is unknown if the file has no price for the type. The amount is 0 if the price
// is 0, or if nothing was bought.
func TestUnknownPrices(t *testing.T) { synctest.Test(t, testUnknownPrices) }

func testUnknownPrices(t *testing.T) {
	for name, c := range map[string]struct {
		price               targets.Price
		spent, solved, lost int64
		known               bool
	}{
		"no price":                 {targets.Price{}, 0, 5, 0, false},
		"no price, lost":           {targets.Price{}, 0, 0, 1, false},
		"no price, bought nothing": {targets.Price{}, 0, 0, 0, true},
		"no price any more":        {targets.Price{}, 1_000_000, 5, 0, true},
		"free":                     {targets.Costs(0), 0, 5, 1, true},
	} {
		s := busySources()
		set := *s.File.Current()
		set.Providers = []targets.Provider{{Name: "solver", Price: targets.Prices{
			RecaptchaV2: c.price, RecaptchaV3: c.price, HCaptcha: c.price, Turnstile: c.price, GeeTest: c.price, GeeTestV4: c.price, Image: c.price,
		}}}
		target := Target{Counters: Counters{Counts: Counts{Solved: c.solved}, Lost: c.lost}, Spent: money(c.spent), Days: []TargetDay{{Counts: Counts{Solved: c.solved}, Lost: c.lost, Spent: money(c.spent)}}}
		if lacksPrice(&set, set.Targets[0].Identity.Type) {
			target.unprice()
		}
		if target.Spent.Known() != c.known || target.Days[0].Spent.Known() != c.known {
			t.Errorf("%s: %v, the day %v", name, target.Spent, target.Days[0].Spent)
		}
	}
	s := busySources()
	document := NewCollector(s).Snapshot(t.Context()).Document
	if document.Solve.Spent != 0.25 || document.Targets[1].Spent != 0.105123 {
		t.Errorf("known amounts: %v and %v", document.Solve.Spent, document.Targets[1].Spent)
	}
}

func TestMoney(t *testing.T) {
	for n, want := range map[int64]Money{0: 0, 499: 0, 500: 0.000001, 1_000_000_000: 1, 1_234_567_499: 1.234567, 123_456_789_000_000_500: 123456789.000001} {
		if got := money(n); got != want {
			t.Errorf("%d billionths: %v, want %v", n, got, want)
		}
	}
}

// TestSeconds: a figure in seconds has no digits beyond the millisecond.
func TestSeconds(t *testing.T) {
	for ms := range 100_000 {
		d := time.Duration(ms)*time.Millisecond + 499*time.Microsecond
		want, err := strconv.ParseFloat(strconv.Itoa(ms/1000)+"."+strconv.Itoa(1000 + ms%1000)[1:], 64)
		if got := seconds(d); err != nil || got != want {
			t.Fatalf("%s: %v, want %v (%v)", d, got, want, err)
		}
	}
}
