package choice

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"poold/internal/pool"
	"poold/internal/testkit"
)

// model is the true state of a provider at one time.
type model struct{ price, solved, accepted, lead float64 }

// usual returns a provider that solves 95 % of its tasks in about 18 s, and whose tokens sites accept in 95 %.
func usual(price float64) model { return model{price, 0.95, 0.95, 18} }

// changed returns the first model with a change in the hours from and to.
func changed(hour, from, to float64, m model, change func(m *model)) model {
	if hour >= from && hour < to {
		change(&m)
	}
	return m
}

const day = 24.0

// scenarios have the providers of an hour. Each type has its own sums.
var scenarios = []struct {
	name  string
	types int
	at    func(kind int, hour float64) []model
}{
	{"price change", 1, func(_ int, h float64) []model {
		return []model{changed(h, 8, day, usual(1), func(m *model) { m.price = 1.6 }), usual(1.2)}
	}},
	{"acceptance drop for an hour", 1, func(_ int, h float64) []model {
		return []model{changed(h, 8, 9, usual(1), func(m *model) { m.accepted = 0.3 }), usual(1.2)}
	}},
	{"slow night", 1, func(_ int, h float64) []model {
		return []model{changed(h, 14, 20, usual(1), func(m *model) { m.lead = 90 }), usual(1.3)}
	}},
	{"fails one type", 2, func(kind int, h float64) []model {
		return []model{changed(h, day*float64(kind), day, usual(1), func(m *model) { m.solved = 0.1 }), usual(1.3)}
	}},
	{"equal providers", 1, func(int, float64) []model { return []model{usual(1), usual(1)} }},
	{"cheap but rejected", 1, func(int, float64) []model { return []model{{0.8, 0.95, 0.5, 18}, usual(1)} }},
	{"outage of solves", 1, func(_ int, h float64) []model {
		return []model{changed(h, 6, 9, usual(1), func(m *model) { m.solved = 0.02 }), usual(2)}
	}},
	{"mild drop", 1, func(_ int, h float64) []model {
		return []model{changed(h, 8, day, usual(1), func(m *model) { m.accepted = 0.7 }), usual(1.1)}
	}},
	{"three providers", 1, func(_ int, h float64) []model {
		return []model{{1, 0.95, 0.6, 18}, changed(h, 10, day, usual(1.2), func(m *model) { m.solved = 0.4 }), usual(1.5)}
	}},
}

// The policy best costs nearly as little as the best provider of the day, at 0.1 and at 0.01 orders a second. With -v
// the test prints the cost per accepted token of each policy, relative to that provider.
func TestScenarios(t *testing.T) {
	testkit.WithoutRace(t)
	sums := [4]float64{}
	for _, s := range scenarios {
		row := [4]float64{}
		row[0], row[1] = relative(s.types, s.at, Ordered, 0.02, 0), relative(s.types, s.at, Cheapest, 0.02, 0)
		for i, rate := range []float64{0.1, 0.01} {
			seeds := []int{1, 5}[i]
			for seed := range seeds {
				row[2+i] += relative(s.types, s.at, Best, rate, seed) / float64(seeds)
			}
		}
		t.Logf("%-28s ordered %.3f, cheapest %.3f, best %.3f and %.3f", s.name, row[0], row[1], row[2], row[3])
		for i := range sums {
			sums[i] += row[i] / float64(len(scenarios))
		}
	}
	t.Logf("%-28s ordered %.3f, cheapest %.3f, best %.3f and %.3f", "mean", sums[0], sums[1], sums[2], sums[3])
	for _, mean := range sums[2:] {
		testkit.AtMost(t, "cost of best, relative to the best fixed choice", mean, 1.05)
	}
}

// event is what the scripts learn of an order.
type event struct {
	second float64
	sums   pool.Sums
	kind   string
	adds   pool.Sums
}

// relative returns the expected cost per accepted token of a day, relative to the best provider of each type.
func relative(types int, at func(int, float64) []model, policy string, rate float64, seed int) float64 {
	var cost, tokens, bestCost, bestTokens float64
	for kind := range types {
		dice := rand.New(rand.NewPCG(uint64(seed), uint64(kind)))
		n := len(at(kind, 0))
		sums, fixedCost, fixedTokens := make([]pool.Sums, n), make([]float64, n), make([]float64, n)
		for i := range sums {
			sums[i] = pool.Sums{}
		}
		var events []event // of the future, ascending
		later := func(e event) {
			i, _ := slices.BinarySearchFunc(events, e, func(a, b event) int { return cmp.Compare(a.second, b.second) })
			events = slices.Insert(events, i, e)
		}
		for second := dice.ExpFloat64() / rate; second < day*3600; second += dice.ExpFloat64() / rate {
			for len(events) > 0 && events[0].second <= second {
				e := events[0]
				events = events[1:]
				add(e.sums, e.second, e.kind, e.adds)
			}
			models, prices := at(kind, second/3600), make([]float64, n)
			for i, m := range models {
				prices[i] = m.price
				fixedCost[i], fixedTokens[i] = fixedCost[i]+m.price, fixedTokens[i]+m.solved*m.accepted
				add(sums[i], second, "", nil) // as a read does
			}
			chosen := 0
			switch policy {
			case Cheapest:
				chosen = lowest(prices)
			case Best:
				chosen, _ = best(prices, sums, dice.Float64())
			}
			m := models[chosen]
			cost, tokens = cost+m.price, tokens+m.solved*m.accepted
			ends := second + min(max(m.lead*math.Exp(0.45*dice.NormFloat64()), 6), 600)
			if dice.Float64() >= m.solved {
				later(event{ends, sums[chosen], "order:", pool.Sums{"order:ended": 1}})
				continue
			}
			later(event{ends, sums[chosen], "order:", pool.Sums{"order:ended": 1, "order:solved": 1}})
			verdict := "rejected"
			if dice.Float64() < m.accepted {
				verdict = "accepted"
			}
			if dice.Float64() < 0.6 {
				name := fmt.Sprint("report:", verdict, ":", dice.IntN(3))
				later(event{ends + 20*dice.ExpFloat64(), sums[chosen], "report:", pool.Sums{name: 1}})
			}
		}
		least := 0
		for i := range fixedCost {
			if fixedCost[i]/fixedTokens[i] < fixedCost[least]/fixedTokens[least] {
				least = i
			}
		}
		bestCost, bestTokens = bestCost+fixedCost[least], bestTokens+fixedTokens[least]
	}
	return cost / tokens / (bestCost / bestTokens)
}

// add moves sums as the function outcome of the scripts does.
func add(s pool.Sums, second float64, kind string, adds pool.Sums) {
	fade := math.Exp((s["at"] - second) / 3600)
	for name := range s {
		s[name] *= fade
		if kind != "" && strings.HasPrefix(name, kind) {
			s[name] *= math.Exp(-1.0 / 40)
		}
	}
	for name, sum := range adds {
		s[name] += sum
	}
	s["at"] = second
}
