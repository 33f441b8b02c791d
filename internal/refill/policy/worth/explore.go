package worth

const (
	// exploreShare is the greatest share of orders that explore.
	exploreShare = 0.03
	// exploreLoss is the greatest part of the cost of all orders that exploration may lose, if the
	// estimates are right.
	exploreLoss = 0.02
	// A greater loss than mostLoss, in costs of the best provider, counts as mostLoss, so that even the
	// slowest provider is explored from time to time.
	mostLoss = 20
	// Without orders for the stock, one order in callersPerTry explores for a caller that has time.
	callersPerTry = 100
	// leastGain is the saving, as a share of the cost, from which a provider may be explored.
	leastGain = 0.05
)

// Explorer decides which orders try another provider than the best one. The zero value is ready to
// use. It keeps counts for one type of CAPTCHA.
type Explorer struct {
	orders    float64 // orders that may explore; at most 1
	callers   int     // orders for callers since the last order for the stock
	number    int     // number of explorations
	providers map[string]*explored
}

// explored is a provider that may be explored.
type explored struct {
	last    int     // number of its last exploration; 0 = none
	allowed float64 // loss that exploring it may cost, in costs of the best provider; at most mostLoss
}

// Ordered adds an order. The argument callers is true if a caller waits for the order.
func (e *Explorer) Ordered(callers bool) {
	e.orders = min(1, e.orders+exploreShare)
	for _, p := range e.providers {
		p.allowed = min(mostLoss, p.allowed+exploreLoss/float64(len(e.providers)))
	}
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
// once. The provider whose last exploration is longest ago comes first. The result loss is the expected
// loss, for Explored.
func (e *Explorer) Next(names []string, offers []Figures, best int, need Need) (next int, loss float64) {
	costs := Costs(offers, need)
	next = -1
	var oldest *explored
	for i, f := range offers {
		p := e.provider(names[i])
		if i == best || priceOf(offers, i) > costs[best]*(1-leastGain) {
			continue
		}
		lost := min(mostLoss, f.Solved*f.Accepted*max(0, costs[i]/costs[best]-1))
		if lost <= p.allowed && (oldest == nil || p.last < oldest.last) {
			next, loss, oldest = i, lost, p
		}
	}
	return next, loss
}

func (e *Explorer) provider(name string) *explored {
	p := e.providers[name]
	if p == nil {
		if e.providers == nil {
			e.providers = map[string]*explored{}
		}
		p = &explored{allowed: 1}
		e.providers[name] = p
	}
	return p
}

// Explored records that an order explores a provider, and the loss that Next returned.
func (e *Explorer) Explored(name string, loss float64) {
	e.number++
	p := e.provider(name)
	p.last, p.allowed = e.number, p.allowed-loss
	e.orders, e.callers = 0, 0
}
