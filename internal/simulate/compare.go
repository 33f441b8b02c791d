package simulate

import (
	"context"
	"math"
	"slices"

	"poold/internal/refill/policy"
	"poold/internal/targets"
)

// compareDepths are the fixed depths that a comparison tries. It stops earlier if a greater depth saves hardly any
// misses (see notWorth).
var compareDepths = []int{1, 2, 3, 4, 5, 6, 8, 11, 15, 20, 27, 36, 48, 64, 90, 120, 160, 200}

// compareMissCosts are the values of miss_cost of a comparison, besides the target's own value.
var compareMissCosts = []float64{1, 3, 10}

// notWorth ends a comparison: the last two depths together saved at most one miss in this number of requests.
const notWorth = 1000

// perPrice is the number of solves to which a price refers.
const perPrice = 1000

// Cost is the cost of a simulated run in the currency of the price, also as JSON.
type Cost struct {
	Price  float64 `json:"price_per_1000"`
	Spent  float64 `json:"spent"`         // cost of all bought tokens
	PerDay float64 `json:"spent_per_day"` // mean cost per day over the length of the demand
}

// newCost returns the cost of a run, given the price of 1000 solves. A price of 0 means unknown, and the result is
// nil.
func newCost(r policy.Result, price float64) *Cost {
	if price == 0 {
		return nil
	}
	shown := func(x float64) float64 { return math.Round(x*1e6) / 1e6 } // as in /status.json
	return &Cost{Price: shown(price), Spent: shown(float64(r.Bought) * price / perPrice),
		PerDay: shown(r.BoughtADay * price / perPrice)}
}

// Run is one run of a comparison.
type Run struct {
	Refill   string  `json:"refill"`
	Depth    int     `json:"depth"`
	MissCost float64 `json:"miss_cost,omitempty"` // adaptive only
	policy.Result
	*Cost
}

// compare runs fixed depths and the adaptive policy on the same demand.
func compare(ctx context.Context, base policy.Simulation, price float64) ([]Run, error) {
	missCosts := append([]float64{base.Params.MissCost}, compareMissCosts...)
	slices.Sort(missCosts)
	missCosts = slices.Compact(missCosts)
	var rows []Run
	runs := len(compareDepths) + len(missCosts)
	try := func(one policy.Simulation) error {
		done := len(rows)
		one.Progress = func(share float64) { base.Progress((float64(done) + share) / float64(runs)) }
		result, err := one.Run(ctx)
		r := Run{Refill: string(targets.RefillFixed), Depth: one.Params.Depth, Result: result, Cost: newCost(result, price)}
		if one.Params.Adaptive {
			r.Refill, r.MissCost = string(targets.RefillAdaptive), one.Params.MissCost
		}
		rows = append(rows, r)
		return err
	}
	for _, depth := range compareDepths {
		if err := try(base.Fixed(depth)); err != nil {
			return nil, err
		}
		if n := len(rows); n > 2 && rows[n-3].Misses-rows[n-1].Misses <= rows[n-1].Requests/notWorth {
			break
		}
	}
	for _, missCost := range missCosts {
		if err := try(base.Adaptive(missCost)); err != nil {
			return nil, err
		}
	}
	return rows, nil
}
