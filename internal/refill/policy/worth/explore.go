package worth

const (
	// exploreShare is the greatest share of orders that explore.
	exploreShare = 0.03
	// exploreLoss is the greatest part of the cost of all orders that exploration may lose, if the
	// estimates are right.
	exploreLoss = 0.02
	mostLoss    = 20 // the greatest loss that is saved for, in costs of the best provider
	// Without orders for the stock, one order in callersPerTry explores for a caller that has time.
	callersPerTry = 100
	// leastGain is the saving, as a share of the cost, from which a provider may be explored.
	leastGain = 0.05
)

// Explorer decides which orders try another provider than the best one. The zero value is ready to
// use. It keeps counts for one type of CAPTCHA.
type Explorer struct {
	orders   float64        // orders that may explore; at most 1
	loss     float64        // loss that is allowed, in costs of the best provider
	callers  int            // orders for callers since the last order for the stock
	explored map[string]int // by provider: number of the last exploration
	number   int
}

// Ordered adds an order. The argument callers is true if a caller waits for the order.
func (e *Explorer) Ordered(callers bool) {
	e.orders, e.loss = min(1, e.orders+exploreShare), min(mostLoss, e.loss+exploreLoss)
	if callers {
		e.callers++
	} else {
		e.callers = 0
	}
}

// May reports whether an order may explore now. If a caller waits for the order, the argument hasTime
// reports whether the caller can wait for a slow solve.
func (e *Explorer) May(callers, hasTime bool) bool {
	return e.orders >= 1 && (!callers || hasTime && e.callers >= callersPerTry)
}

// Next returns the index of the provider that an order explores, or -1. A provider is explored only if
// it could save leastGain of the cost of the best offer, were all its orders solved and accepted at
// once. The provider whose last exploration is longest ago comes first. Before Next, Explored must
// have been called for each order that explored.
func (e *Explorer) Next(names []string, offers []Figures, best int, need Need) (next int, loss float64) {
	costs := Costs(offers, need)
	next = -1
	for i, f := range offers {
		if i == best || priceOf(offers, i) > costs[best]*(1-leastGain) {
			continue
		}
		lost := f.Solved * f.Accepted * max(0, costs[i]/costs[best]-1)
		if lost <= e.loss && (next < 0 || e.explored[names[i]] < e.explored[names[next]]) {
			next, loss = i, lost
		}
	}
	return next, loss
}

// Explored records that an order explores a provider, and the loss that Next returned.
func (e *Explorer) Explored(name string, loss float64) {
	if e.explored == nil {
		e.explored = map[string]int{}
	}
	e.number++
	e.explored[name] = e.number
	e.orders, e.loss, e.callers = 0, e.loss-loss, 0
}
