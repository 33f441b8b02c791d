package outcomes

import (
	"time"

	"poold/internal/purchase"
	"poold/internal/refill/policy/worth"
)

// slowQuantile is the quantile of the lead times for which a caller must have time if its order
// explores.
const slowQuantile = 0.9

// How a provider was chosen, besides the words of package purchase.
const (
	Cheapest = "cheapest" // the lowest price
	Best     = "best"     // the lowest expected cost per accepted token
	Explore  = "explore"  // another provider than the best one, to learn about it
)

// Choose implements purchase.Chooser.
func (b *Book) Choose(s *purchase.Spec, offers []purchase.Offer) (index int, how string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// The offers that did not refuse the identity, and their indexes. If all refused it, all are left.
	rest, indexes := offers[:0:0], []int(nil)
	for i, o := range offers {
		if time.Since(b.refused[refusal{string(s.ID), o.Provider}]) > avoidFor {
			rest, indexes = append(rest, o), append(indexes, i)
		}
	}
	if len(rest) == 0 {
		return b.chooseLocked(s, offers)
	}
	index, how = b.chooseLocked(s, rest)
	return indexes[index], how
}

// chooseLocked chooses among the given offers.
func (b *Book) chooseLocked(s *purchase.Spec, offers []purchase.Offer) (index int, how string) {
	m := b.marketLocked(s.Identity.Type)
	estimates, prices, names := make([]*worth.Estimate, len(offers)), make([]float64, len(offers)), make([]string, len(offers))
	for i, o := range offers {
		estimates[i], prices[i], names[i] = m.estimate(o.Provider), o.Price, o.Provider
	}
	list := worth.Compare(estimates, prices)
	if s.Policy == Cheapest {
		return worth.Choose(worth.Cheapest, list, worth.Need{}), Cheapest
	}
	for i, o := range offers {
		if o.Full {
			// All slots are in use, so one becomes free after about this time.
			list[i].Slot = time.Duration(list[i].Leads.Mean() / float64(max(1, o.Slots)) * float64(time.Second))
		}
	}
	need := worth.Need{MaxWaste: s.MissCost, Afford: s.Afford}
	best := worth.Choose(worth.Best, list, need)
	if !m.explorer.May(s.Guest, s.Afford > 0) {
		return best, Best
	}
	next, loss := m.explorer.Next(names, list, best, need)
	if next < 0 || offers[next].Full || s.Guest && s.Afford < estimates[next].Leads.Quantile(slowQuantile) {
		return best, Best
	}
	m.explorer.Explored(names[next], loss)
	return next, Explore
}
