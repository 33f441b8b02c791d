package purchase

import (
	"time"

	"poold/internal/captcha"
)

// Chooser chooses the providers of orders with a policy other than worth.Ordered. It is safe for
// concurrent use and must not block.
type Chooser interface {
	// Choose returns the index of the provider for an order, and how it was chosen. There is at least
	// one offer.
	Choose(bid Bid, offers []Offer) (index int, how Choice)
	// Placed counts an order that was placed with the policy worth.Best. The argument callers is true
	// if a caller waited for the order.
	Placed(t captcha.Type, callers bool)
}

// Offer is a provider that is up.
type Offer struct {
	Provider string
	Price    float64 // price of one token; negative = unknown
	Slots    int     // maximum number of orders in flight
	Full     bool    // all slots are in use
}

// chosen is the account for an order. If the account is nil, wait is the time until the next check.
type chosen struct {
	account *account
	choice  Choice
	wait    time.Duration
}

// choose chooses the first account that is ready and not full.
func choose(offers []offer, at time.Time) chosen {
	wait := recheckEvery
	for _, o := range offers {
		if o.full {
			// Ready may use up the only probe that is allowed per minute, so it is not called for a full
			// provider. If a full provider is up, the request waits for a slot at this provider.
			if o.up {
				return chosen{wait: min(wait, o.recheck)}
			}
			continue
		}
		ready, after := o.Ready(at)
		switch {
		case ready && o.up:
			return chosen{account: o.account, choice: Ordered}
		case ready:
			return chosen{account: o.account, choice: Probe}
		}
		wait = min(wait, max(after, shortestRecheck))
	}
	return chosen{wait: wait}
}

// chooseBy lets the chooser choose among the accounts that are up. If an account that is not up allows
// a probe, the order is the probe, because the account would otherwise never get an order again.
func chooseBy(c Chooser, bid Bid, offers []offer, at time.Time) chosen {
	wait := recheckEvery
	var up []offer
	var list []Offer
	for _, o := range offers {
		switch {
		case o.up:
			up = append(up, o)
			list = append(list, Offer{Provider: o.Name(), Price: o.price(bid.Type), Slots: o.slots, Full: o.full})
		case o.full:
			wait = min(wait, o.recheck)
		default:
			ready, after := o.Ready(at)
			if ready {
				return chosen{account: o.account, choice: Probe}
			}
			wait = min(wait, max(after, shortestRecheck))
		}
	}
	if len(up) == 0 {
		return chosen{wait: wait}
	}
	i, how := c.Choose(bid, list)
	o := up[i]
	if o.full {
		return chosen{wait: min(wait, o.recheck)}
	}
	if ready, after := o.Ready(at); !ready { // the provider has just refused a call
		return chosen{wait: min(wait, max(after, shortestRecheck))}
	}
	return chosen{account: o.account, choice: how}
}
