package status

import (
	"testing"

	"poold/internal/pool"
)

// The amount spent is unknown if the file has no price for the type. The amount is 0 if the price is 0, or if nothing
// was bought.
func TestUnknownPrices(t *testing.T) {
	for name, c := range map[string]struct {
		price float64
		f     pool.Counters
		known bool
	}{
		"no price":                 {-1, pool.Counters{Solved: 5}, false},
		"no price, lost":           {-1, pool.Counters{Lost: 1}, false},
		"no price, bought nothing": {-1, pool.Counters{}, true},
		"no price any more":        {-1, pool.Counters{Spent: 1_000_000, Solved: 5}, true},
		"free":                     {0, pool.Counters{Solved: 5, Lost: 1}, true},
	} {
		set := newSet(newTarget("login"))
		for i := range set.Providers[0].Price {
			set.Providers[0].Price[i] = c.price
		}
		s, stock := sources(set)
		stock.stocks[set.Targets[0].ID] = pool.Stock{Counts: pool.Counts{Counters: c.f},
			Days: []pool.Period{{At: day, Counters: c.f}}}
		target := NewCollector(s).Build(t.Context()).Targets[0]
		if (target.Spent >= 0) != c.known || (target.Days[0].Spent >= 0) != c.known {
			t.Errorf("%s: %v, the day %v", name, target.Spent, target.Days[0].Spent)
		}
	}
}
