package simulate

import (
	"context"
	"fmt"
	"math"

	"poold/internal/cli"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

const (
	// perPrice is the number of solves to which a price refers.
	perPrice = 1000
	// The amounts in the JSON are rounded to multiples of 1/moneyShown, as in /status.json.
	moneyShown = 1e6
)

// Money is the cost of a simulated run in the currency of the price, also as JSON.
type Money struct {
	Price  float64 `json:"price_per_1000"`
	Spent  float64 `json:"spent"`         // cost of all bought tokens
	PerDay float64 `json:"spent_per_day"` // mean cost per day over the length of the demand

	currency targets.Currency
}

// text formats an amount for people.
func (m *Money) text(amount float64) string { return m.currency.With(cli.Amount(amount)) }

// price is the price of 1000 solves.
type price struct {
	per1000  float64 // 0 = unknown
	currency targets.Currency
}

// newMoney returns the cost of a run, or nil if the price is unknown.
func newMoney(r policy.Result, p price) *Money {
	if p.per1000 == 0 {
		return nil
	}
	shown := func(x float64) float64 { return math.Round(x*moneyShown) / moneyShown }
	return &Money{
		Price:  shown(p.per1000),
		Spent:  shown(float64(r.Bought) * p.per1000 / perPrice),
		PerDay: shown(r.BoughtADay * p.per1000 / perPrice),

		currency: p.currency,
	}
}

// verdict returns one sentence that compares a simulated run with a run of the other policy on the
// same demand. An adaptive policy is compared with the nearest fixed depth, and a fixed depth with
// the adaptive policy.
func verdict(ctx context.Context, base policy.Simulation, r policy.Result, p price) (string, error) {
	own, k := worthOf(r, p), base.Params
	if k.Adaptive {
		depth, fixed, err := base.NearestFixed(ctx, r)
		return fmt.Sprintf("adaptive, max_waste %g: %s; the nearest fixed depth is %d: %s", k.MaxWaste, own, depth, worthOf(fixed, p)), err
	}
	adaptive, err := base.Adaptive(k.MaxWaste).Run(ctx)
	return fmt.Sprintf("fixed, depth %d: %s; adaptive, max_waste %g: %s", k.Depth, own, k.MaxWaste, worthOf(adaptive, p)), err
}

// worthOf returns the part of a verdict that describes one run.
func worthOf(r policy.Result, p price) string {
	text := fmt.Sprintf("%.1f %% hits, none served", 100*r.HitRate)
	if r.Served > 0 {
		text = fmt.Sprintf("%.1f %% hits, %.2f bought each", 100*r.HitRate, r.BoughtEach)
	}
	if spent := newMoney(r, p); spent != nil {
		text += fmt.Sprintf(", %s spent a day", spent.text(spent.PerDay))
	}
	return text
}
