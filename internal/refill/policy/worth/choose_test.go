package worth

import (
	"math"
	"testing"
	"time"
)

// after returns lead times that all have about the given length.
func after(seconds float64) *Leads {
	return LeadsOf([]time.Duration{time.Duration(seconds * float64(time.Second))})
}

func TestCosts(t *testing.T) {
	near := func(got, want float64) bool { return math.Abs(got/want-1) < 0.1 } // lead times are known to about 7 %
	offers := []Figures{
		{Price: 1, Solved: 0.5, Accepted: 0.8, Leads: after(20)},
		{Price: 3, Solved: 1, Accepted: 1, Leads: after(10)},
	}
	costs := Costs(offers, Need{Afford: time.Hour, MaxWaste: 3})
	if !near(costs[0], 2.5) || !near(costs[1], 3) {
		t.Errorf("costs %v, want 1/(0.5*0.8) and 3", costs)
	}
	// A caller waits for 10 s at the fast provider. At the other one the first order takes 20 s, and after
	// a failure the next ones take 40 s on average: 40 s in all. Each 10 s cost 3 x 2.5.
	costs = Costs(offers, Need{MaxWaste: 3})
	if !near(costs[0], 2.5+4*7.5) || !near(costs[1], 3+7.5) {
		t.Errorf("costs for a caller %v, want 32.5 and 10.5", costs)
	}
	offers[1].Slot = 10 * time.Second // the provider is full
	if costs := Costs(offers, Need{MaxWaste: 3}); !near(costs[1], 3+2*7.5) {
		t.Errorf("cost at a full provider %v, want 18", costs[1])
	}
}

func TestChoose(t *testing.T) {
	offer := func(price, solved, lead float64) Figures {
		return Figures{Price: price, Solved: solved, Accepted: 1, Leads: after(lead)}
	}
	unknown := new(Leads)
	stock, caller := Need{Afford: time.Hour, MaxWaste: 3}, Need{MaxWaste: 3}
	for _, tc := range []struct {
		name   string
		policy Policy
		need   Need
		offers []Figures
		want   int
	}{
		{"ordered is the first", Ordered, stock, []Figures{offer(9, 0.1, 90), offer(1, 1, 1)}, 0},
		{"cheapest", Cheapest, stock, []Figures{offer(2, 1, 1), offer(1, 0.1, 90)}, 1},
		{"cheapest at the price 0", Cheapest, stock, []Figures{offer(2, 1, 1), offer(0, 1, 1)}, 1},
		{"cheapest without a price is the first", Cheapest, stock, []Figures{offer(2, 1, 1), offer(-1, 1, 1), offer(1, 1, 1)}, 0},
		{"best of the stock", Best, stock, []Figures{offer(2, 1, 5), offer(1, 0.9, 50)}, 1},
		{"best for a caller", Best, caller, []Figures{offer(2, 1, 5), offer(1, 0.9, 50)}, 0},
		{"a fast one that is not worth it", Best, caller, []Figures{offer(20, 1, 15), offer(1, 1, 18)}, 1},
		{"many failures", Best, stock, []Figures{offer(1, 0.5, 18), offer(1.5, 1, 18)}, 1},
		{"equal costs", Best, stock, []Figures{offer(1.01, 1, 18), offer(1, 1, 18)}, 0},
		{"prices that cannot be compared", Best, stock, []Figures{offer(-1, 0.8, 18), offer(100, 0.9, 18)}, 1},
		{"a price of 0 cannot be compared", Best, stock, []Figures{offer(0, 0.5, 18), offer(1, 0.9, 18)}, 1},
		{"no lead time is known", Best, caller, []Figures{{Price: 2, Solved: 1, Accepted: 1, Leads: unknown}, {Price: 1, Solved: 1, Accepted: 1, Leads: unknown}}, 1},
		{"one offer", Best, caller, []Figures{offer(1, 0.02, 600)}, 0},
	} {
		if got := Choose(tc.policy, tc.offers, tc.need); got != tc.want {
			t.Errorf("%s: chose %d, want %d", tc.name, got, tc.want)
		}
	}
}

// Any figures in range have a finite, positive cost.
func TestCostsAreFinite(t *testing.T) {
	dice := random(1)
	for range 20_000 {
		var offers []Figures
		for range 1 + dice.IntN(4) {
			f := Figures{Price: 1e6 * dice.Float64() * float64(dice.IntN(3)-1), Solved: max(leastShare, dice.Float64()), Accepted: max(leastShare, dice.Float64()), Leads: new(Leads)}
			for range dice.IntN(3) {
				f.Leads.Add(time.Duration(dice.ExpFloat64() * float64(time.Minute)))
			}
			f.Slot = time.Duration(dice.IntN(100)) * time.Second
			offers = append(offers, f)
		}
		need := Need{Afford: time.Duration(dice.IntN(100)) * time.Second, MaxWaste: 1000 * dice.Float64()}
		for _, cost := range Costs(offers, need) {
			if !(cost >= 0) || math.IsInf(cost, 0) {
				t.Fatalf("cost %v of %+v", cost, offers)
			}
		}
		if i := Choose(Best, offers, need); i < 0 || i >= len(offers) {
			t.Fatal(i)
		}
	}
}

// Without reports all tokens count as accepted. With reports on one provider's tokens, the other one has
// the prior.
func TestCompare(t *testing.T) {
	reported, silent := new(Estimate), new(Estimate)
	if list := Compare([]*Estimate{reported, silent}, []float64{1, 2}); list[0].Accepted != 1 || list[1].Accepted != 1 || list[1].Price != 2 {
		t.Errorf("%+v", list)
	}
	for range 50 {
		reported.Accepted.Add("caller", true)
	}
	list := Compare([]*Estimate{reported, silent}, []float64{1, 2})
	if list[0].Accepted < 0.95 || list[1].Accepted != new(Share).Lower() {
		t.Errorf("%+v", list)
	}
}

// Whatever the orders, at most 3 % of them explore, their expected loss is at most 2 % of the cost, and for
// callers at most one in 100, if there are no orders for the stock.
func TestExplorationIsBounded(t *testing.T) {
	names := []string{"best", "dear", "failing", "slow"}
	offers := []Figures{
		{Price: 1, Solved: 0.9, Accepted: 0.9, Leads: after(18)},
		{Price: 50, Solved: 1, Accepted: 1, Leads: after(18)}, // can save nothing
		{Price: 1, Solved: 0.02, Accepted: 1, Leads: after(18)},
		{Price: 0.9, Solved: 1, Accepted: 1, Leads: after(600)},
	}
	for seed := range 20 {
		dice := random(seed)
		for _, callersShare := range []float64{0, 0.5, 1} {
			var e Explorer
			orders, explored, forCallers, loss := 0, map[int]int{}, 0, 0.0
			for range 5000 {
				callers := dice.Float64() < callersShare
				orders++
				e.Ordered(callers)
				need := Need{MaxWaste: 3, Afford: time.Duration(dice.IntN(80)) * time.Second}
				if !e.May(callers, dice.IntN(2) == 0) {
					continue
				}
				i, lost := e.Next(names, offers, 0, need)
				if i < 0 {
					continue
				}
				e.Explored(names[i], lost)
				explored[i]++
				loss += lost
				if callers {
					forCallers++
				}
			}
			all := explored[2] + explored[3]
			if explored[0]+explored[1] > 0 || all > orders*3/100 || loss > 0.02*float64(orders)+float64(len(names)) {
				t.Errorf("%v for callers: explored %v of %d orders, loss %.1f", callersShare, explored, orders, loss)
			}
			if callersShare == 1 && (forCallers == 0 || forCallers > orders/100) || callersShare == 0.5 && forCallers > 0 {
				t.Errorf("%v for callers: %d of their orders explored", callersShare, forCallers)
			}
			if callersShare == 0 && (explored[2] < 5 || explored[3] < 1) {
				t.Errorf("the providers do not take turns: %v", explored)
			}
		}
	}
}
