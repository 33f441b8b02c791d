package outcomes

import (
	"time"

	"poold/internal/captcha"
	"poold/internal/purchase"
	"poold/internal/refill/policy/worth"
)

// slowQuantile is the quantile of the lead times for which a caller must have time if its order
// explores.
const slowQuantile = 0.9

// Choose implements purchase.Chooser.
func (b *Book) Choose(bid purchase.Bid, offers []purchase.Offer) (index int, how purchase.Choice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The offers that did not refuse the identity, and their indexes. If all refused it, all are left.
	rest, indexes := offers[:0:0], []int(nil)
	for i, o := range offers {
		if time.Since(b.refused[refusal{bid.For, o.Provider}]) > avoidFor {
			rest, indexes = append(rest, o), append(indexes, i)
		}
	}
	if len(rest) == 0 {
		return b.chooseLocked(bid, offers)
	}
	index, how = b.chooseLocked(bid, rest)
	return indexes[index], how
}

// chooseLocked chooses among the given offers.
func (b *Book) chooseLocked(bid purchase.Bid, offers []purchase.Offer) (index int, how purchase.Choice) {
	m := b.marketLocked(bid.Type)
	estimates, prices, names := make([]*worth.Estimate, len(offers)), make([]float64, len(offers)), make([]string, len(offers))
	for i, o := range offers {
		estimates[i], prices[i], names[i] = m.estimate(o.Provider), o.Price, o.Provider
	}
	list := worth.Compare(estimates, prices)
	if bid.Policy == worth.Cheapest {
		return worth.Choose(worth.Cheapest, list, worth.Need{}), purchase.Cheapest
	}
	for i, o := range offers {
		if o.Full {
			// All slots are in use, so one becomes free after about this time.
			list[i].Slot = time.Duration(list[i].Leads.Mean() / float64(max(1, o.Slots)) * float64(time.Second))
		}
	}
	need := worth.Need{MaxWaste: bid.MaxWaste}
	if !bid.Callers {
		need.Afford = bid.Afford
	}
	best := worth.Choose(worth.Best, list, need)
	if !m.explorer.May(bid.Callers, bid.Patience > 0) {
		return best, purchase.Best
	}
	next, loss := m.explorer.Next(names, list, best, need)
	if next < 0 || offers[next].Full || bid.Callers && bid.Patience < estimates[next].Leads.Quantile(slowQuantile) {
		return best, purchase.Best
	}
	m.explorer.Explored(names[next], loss)
	return next, purchase.Explore
}

// Placed implements purchase.Chooser.
func (b *Book) Placed(t captcha.Type, callers bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marketLocked(t).explorer.Ordered(callers)
}
