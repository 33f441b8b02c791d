package simulate

import (
	"context"
	"fmt"
	"math"

	"poold/internal/cli"
	"poold/internal/refill/policy"
)

const (
	// perPrice is the number of solves of a price.
	perPrice = 1000
	// moneyShown rounds the amounts of the JSON to its inverse, as in /status.json.
	moneyShown = 1e6
)

// Money is the cost of a simulated run in the currency of the price, also as JSON.
type Money struct {
	Price  float64 `json:"price_per_1000"`
	Spent  float64 `json:"spent"`         // on all tokens
	PerDay float64 `json:"spent_per_day"` // over the length of the demand
}

// newMoney returns the cost of a run, or nil without a price of 1000 solves.
func newMoney(r policy.Result, per1000 float64) *Money {
	if per1000 == 0 {
		return nil
	}
	shown := func(x float64) float64 { return math.Round(x*moneyShown) / moneyShown }
	return &Money{
		Price:  shown(per1000),
		Spent:  shown(float64(r.Bought) * per1000 / perPrice),
		PerDay: shown(r.BoughtADay * per1000 / perPrice),
	}
}

// verdict compares in one sentence a run of base with the other way of refilling on the same demand: the
// nearest fixed depth for an adaptive policy, the adaptive policy for a fixed depth.
func verdict(ctx context.Context, base policy.Simulation, r policy.Result, per1000 float64) (string, error) {
	own, k := worth(r, per1000), base.Params
	if k.Adaptive {
		depth, fixed, err := base.NearestFixed(ctx, r)
		return fmt.Sprintf("adaptive, max_waste %g: %s; the nearest fixed depth is %d: %s", k.MaxWaste, own, depth, worth(fixed, per1000)), err
	}
	adaptive, err := base.Adaptive(k.MaxWaste).Run(ctx)
	return fmt.Sprintf("fixed, depth %d: %s; adaptive, max_waste %g: %s", k.Depth, own, k.MaxWaste, worth(adaptive, per1000)), err
}

// worth returns the part of a verdict about one run.
func worth(r policy.Result, per1000 float64) string {
	text := fmt.Sprintf("%.1f %% hits, none served", 100*r.HitRate)
	if r.Served > 0 {
		text = fmt.Sprintf("%.1f %% hits, %.2f bought each", 100*r.HitRate, r.BoughtEach)
	}
	if spent := newMoney(r, per1000); spent != nil {
		text += fmt.Sprintf(", %s spent a day", cli.Amount(spent.PerDay))
	}
	return text
}
