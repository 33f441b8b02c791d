package worth_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"poold/internal/refill/policy/worth"
)

var unknownLeads = new(worth.Leads)

// candidate returns an offer with an uncertain share, which costs more than its price.
func candidate(price float64) worth.Figures {
	return worth.Figures{Price: price, Solved: .5, Accepted: 1, Leads: unknownLeads}
}

// proven returns an offer that costs its price.
func proven(price float64) worth.Figures {
	return worth.Figures{Price: price, Solved: 1, Accepted: 1, Leads: unknownLeads}
}

// In every sequence of orders, at most 3 % explore, and the loss is at most 2 % of the cost of all
// orders and the first order at each provider. An order for a caller explores only if the caller has time and none of the last 100
// orders was for the stock or explored.
func TestExplorationIsBoundedInRandomSequences(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	tried, forCallers := 0, 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var e worth.Explorer
		explored, lost, inRow := 0, 0.0, 0
		stock := []float64{0, .001, .01, .5, 1}[r.IntN(5)] // share of orders for the stock
		for orders := range 2000 {
			callers, hasTime := r.Float64() >= stock, r.IntN(2) == 0
			offers, need := randomOffers(r), randomNeed(r)
			if e.May(callers, hasTime) {
				best := worth.Choose(worth.Best, offers, need)
				if next, loss := e.Next(names, offers, best, need); next >= 0 {
					if next == best || next >= len(offers) || loss < 0 {
						t.Fatalf("seed %d: explores %d with the loss %v; the best offer is %d of %d", seed, next, loss, best, len(offers))
					}
					if callers && (!hasTime || inRow < 100) {
						t.Fatalf("seed %d: explores for a caller that has time: %v; after %d orders for callers", seed, hasTime, inRow)
					}
					e.Explored(names[next], loss)
					explored, lost, inRow = explored+1, lost+loss, 0
					if callers {
						forCallers++
					}
				}
			}
			e.Ordered(callers)
			inRow++
			if !callers {
				inRow = 0
			}
			if n := float64(orders + 1); float64(explored) > .03*n || lost > .02*n+float64(len(names))+1e-9 {
				t.Fatalf("seed %d: of %d orders, %d explored, with a loss of %v", seed, orders+1, explored, lost)
			}
		}
		tried += explored
	}
	t.Logf("%d explorations, %d of them for callers", tried, forCallers)
	if tried < 100 || forCallers < 10 {
		t.Errorf("only %d explorations, %d of them for callers, so too little was tested", tried, forCallers)
	}
}

// Long after the last exploration, one order may explore, and then none for 33 orders.
func TestUnusedExplorationsAreNotSaved(t *testing.T) {
	var e worth.Explorer
	if e.May(false, true) {
		t.Error("the first order explores")
	}
	for range 10000 {
		e.Ordered(false)
	}
	e.Explored("b", 0)
	n := 0
	for ; !e.May(false, false) && n < 1000; n++ {
		e.Ordered(false)
	}
	if n != 34 {
		t.Errorf("the next exploration came after %d orders, want 34", n)
	}
}

// The provider whose last exploration is longest ago comes first.
func TestProvidersAreExploredInTurn(t *testing.T) {
	names := []string{"best", "b", "c", "d"}
	offers := []worth.Figures{proven(1), candidate(.6), candidate(.7), candidate(.8)}
	var e worth.Explorer
	var got []string
	for range 7 {
		for range 200 {
			e.Ordered(false)
		}
		next, loss := e.Next(names, offers, 0, worth.Need{})
		if next < 0 {
			t.Fatalf("no exploration after %q", got)
		}
		got = append(got, names[next])
		e.Explored(names[next], loss)
	}
	if want := []string{"b", "c", "d", "b", "c", "d", "b"}; !slices.Equal(got, want) {
		t.Errorf("explored %q, want %q", got, want)
	}
}

func TestNextProviderToExplore(t *testing.T) {
	for name, c := range map[string]struct {
		offers []worth.Figures
		want   int
		loss   float64
	}{
		"it could save half":         {[]worth.Figures{proven(1), candidate(.6)}, 1, .5 * .2},
		"it could save 6 %":          {[]worth.Figures{proven(1), candidate(.94)}, 1, .5 * .88},
		"it could save only 4 %":     {[]worth.Figures{proven(1), candidate(.96)}, -1, 0},
		"it costs more":              {[]worth.Figures{proven(1), candidate(1.2)}, -1, 0},
		"there is only one provider": {[]worth.Figures{proven(1)}, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var e worth.Explorer
			next, loss := e.Next([]string{"best", "other"}, c.offers, 0, worth.Need{})
			if next != c.want || loss < c.loss-1e-9 || loss > c.loss+1e-9 {
				t.Errorf("explores %d with the loss %v, want %d with %v", next, loss, c.want, c.loss)
			}
		})
	}
}

// randomOffers returns offers with figures anywhere in their ranges.
func randomOffers(r *rand.Rand) (offers []worth.Figures) {
	prices := []float64{-1, 0, 1e-9, r.Float64(), r.Float64(), r.Float64(), 1e6}
	shares := []float64{.02, r.Float64()*.98 + .02, 1}
	for range 1 + r.IntN(5) {
		var leads []time.Duration
		for range r.IntN(4) {
			leads = append(leads, time.Duration(r.Int64N(int64(time.Hour))>>r.IntN(20)))
		}
		offers = append(offers, worth.Figures{
			Price: prices[r.IntN(len(prices))], Solved: shares[r.IntN(3)], Accepted: shares[r.IntN(3)],
			Leads: worth.LeadsOf(leads), Slot: time.Duration(r.IntN(2)) * time.Duration(r.Int64N(int64(time.Hour))),
		})
	}
	return offers
}

func randomNeed(r *rand.Rand) worth.Need {
	return worth.Need{
		Afford:   time.Duration(r.IntN(2)) * time.Duration(r.Int64N(int64(24*time.Hour))),
		MaxWaste: []float64{0, .1, 3, 100}[r.IntN(4)],
	}
}
