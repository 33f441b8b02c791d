package worth

import (
	"math"
	"time"
)

// Policy is the way in which an order gets its provider.
type Policy string

// The policies.
const (
	Ordered  Policy = "ordered"  // the first provider that is up
	Cheapest Policy = "cheapest" // the lowest price
	Best     Policy = "best"     // the lowest expected cost per accepted token
)

// Figures are the figures by which providers are compared.
type Figures struct {
	Price            float64 // price of one token; negative = unknown
	Solved, Accepted float64 // shares above 0, at most 1
	Leads            *Leads
	Slot             time.Duration // expected time until the provider can take the order; 0 = now
}

// Need describes an order.
type Need struct {
	// Afford is how long the token may take before a caller waits for it; 0 = a caller waits now.
	Afford time.Duration
	// MaxWaste is the setting max_waste: the number of tokens that one avoided wait may cost.
	MaxWaste float64
}

// nearly is the relative difference below which two costs count as equal. Among equal costs, the
// order of the file decides.
const nearly = 0.02

// EqualPrices reports whether the prices cannot be compared, because one is unknown or 0. They then
// count as equal.
func EqualPrices(offers []Figures) bool {
	for _, f := range offers {
		if f.Price <= 0 {
			return true
		}
	}
	return false
}

// priceOf returns the price of an offer; 1 if the prices cannot be compared.
func priceOf(offers []Figures, i int) float64 {
	if EqualPrices(offers) {
		return 1
	}
	return offers[i].Price
}

// Choose returns the index of the offer that the policy chooses. There must be an offer.
func Choose(p Policy, offers []Figures, need Need) int {
	switch p {
	case Cheapest:
		return lowest(prices(offers))
	case Best:
		return lowest(Costs(offers, need))
	}
	return 0
}

// prices returns the prices of the offers. If a price is unknown, all prices count as equal.
func prices(offers []Figures) []float64 {
	list := make([]float64, len(offers))
	for i, f := range offers {
		if f.Price < 0 {
			return make([]float64, len(offers))
		}
		list[i] = f.Price
	}
	return list
}

// lowest returns the first index whose cost is nearly the lowest.
func lowest(costs []float64) int {
	least := math.Inf(1)
	for _, c := range costs {
		least = min(least, c)
	}
	for i, c := range costs {
		if c <= least*(1+nearly) {
			return i
		}
	}
	return 0
}

// Costs returns the expected cost per accepted token of each offer, in the unit of the prices. If the
// prices cannot be compared, the unit is the price of one token; see EqualPrices.
func Costs(offers []Figures, need Need) []float64 {
	costs := make([]float64, len(offers))
	cheapest := math.Inf(1)
	for i, f := range offers {
		costs[i] = priceOf(offers, i) / (f.Solved * f.Accepted)
		cheapest = min(cheapest, costs[i])
	}
	fastest := math.Inf(1)
	for _, f := range offers {
		if f.Leads.Known() {
			fastest = min(fastest, f.meanTime())
		}
	}
	for i, f := range offers {
		if f.Leads.Known() {
			costs[i] += need.MaxWaste * cheapest * f.late(need.Afford.Seconds()) / fastest
		}
	}
	return costs
}

// meanTime returns the mean number of seconds until a token lands, if failed orders are repeated.
func (f Figures) meanTime() float64 { return f.Leads.Mean() / f.Solved }

// late returns the mean number of seconds by which the token lands after the given time. It assumes
// that a failed order takes as long as another one, and that the order after a failure takes the mean
// time.
func (f Figures) late(afford float64) float64 {
	afford -= f.Slot.Seconds()
	return f.Solved*f.Leads.beyond(afford) + (1-f.Solved)*f.Leads.beyond(afford-f.meanTime())
}
