package check

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"poold/internal/targets"
)

// targetLine returns one line about a target: its type, its stock, the daily cost of the stock
// without requests, and the daily limit of its purchases. The line is a warning if the stock exceeds
// the limit, or if there is no limit or no price.
func targetLine(set *targets.Set, t *targets.Target) string {
	text := fmt.Sprintf("%s: %s, %s, depth %d; ", t.Name, t.Identity.Type, t.Refill, t.Depth)
	if halted := t.Halted(); halted != "" {
		return "note: " + text + "nothing is bought: " + halted + "\n"
	}
	kept := t.Depth // number of tokens that are replaced at their expiry without requests
	switch {
	case t.Refill == targets.RefillAdaptive:
		kept = t.Min
	case t.IdleAfter > 0:
		kept = 0
	}
	idle := float64(kept) * float64(24*time.Hour) / float64(t.Usable()) // solves a day
	const unlimited = math.MaxInt
	most := min(cmp.Or(24*t.Budget.PerHour, unlimited), cmp.Or(t.Budget.PerDay, unlimited), cmp.Or(set.Budget.PerDay, unlimited)) // solves a day
	price, known := 0.0, true                                                                                                     // price of one solve at the most expensive provider
	for _, p := range set.Providers {
		price = max(price, p.Price.For(t.Identity.Type))
		known = known && p.Price.Known(t.Identity.Type)
	}
	daily := func(solves float64) string {
		if !known {
			return fmt.Sprintf("%.0f solves a day", solves)
		}
		return fmt.Sprintf("%.0f solves a day for %s", solves, set.Currency.With(fmt.Sprintf("%.2f", solves*price)))
	}
	class := "note: "
	warn := func(remark string) {
		if !set.Simulated() { // simulated tokens cost nothing
			class, text = "warning: ", text+remark
		}
	}
	text += "idle " + daily(idle)
	switch {
	case most == unlimited:
		warn("; no budget limits it")
	case idle > float64(most):
		warn("; the budget of " + daily(float64(most)) + " is too small for that")
	default:
		text += "; at most " + daily(float64(most))
	}
	if !known {
		warn("; some provider has no price_per_1000 for this type")
	}
	return class + text + "\n"
}
